// Markdown to DOM nodes. Text only ever becomes text nodes, tags come from this file alone, and links are http, https or mailto: what a model
// writes cannot run, and loads nothing. HTML is shown as it is written.

// Deeper nesting is shown as text.
const DEEPEST = 6;

const node = (tag, ...children) => {
  const made = document.createElement(tag);
  made.append(...children);
  return made;
};

function link(children, target) {
  let url;
  try {
    url = new URL(target);
  } catch {
    return null;
  }
  if (!["http:", "https:", "mailto:"].includes(url.protocol)) return null;
  const made = node("a", ...children);
  made.href = url.href;
  made.rel = "noopener noreferrer nofollow";
  made.target = "_blank";
  return made;
}

const MARKS = [["**", "strong"], ["__", "strong"], ["~~", "del"], ["*", "em"], ["_", "em"]];
const wordy = (c) => c !== undefined && /[\p{L}\p{N}_]/u.test(c);

// The longest emphasis, so that texts full of marks do not take long.
const LONGEST = 4000;

// `*a*`, `**a**`, `_a_`, `~~a~~` at `at`: the tag, the text inside and the end.
function emphasis(whole, at) {
  const text = whole.slice(Math.max(at - 1, 0), at + LONGEST);
  const begin = Math.min(at, 1);
  for (const [mark, tag] of MARKS) {
    const start = begin + mark.length;
    const single = mark.length === 1;
    if (!text.startsWith(mark, begin) || /\s/.test(text[start] ?? " ") || (single && text[start] === mark)) continue;
    if (mark[0] === "_" && begin && wordy(text[0])) continue;
    let end = text.indexOf(mark, start + 1);
    for (; end > 0; end = text.indexOf(mark, end + 1)) {
      if (/\s/.test(text[end - 1]) || (mark[0] === "_" && wordy(text[end + mark.length]))) continue;
      if (!single || text[end + 1] !== mark) break;
      // A double mark inside is not the end of a single one.
      end += 1;
    }
    if (end < 0) continue;
    // The end of `**a *b***` is its last two marks.
    if (!single && text[end + 2] === mark[0]) end += 1;
    return { tag, inside: text.slice(start, end), end: at - begin + end + mark.length };
  }
  return null;
}

const LINK = /!?\[((?:[^[\]\\]|\\.){0,1000})\]\(\s*<?([^\s()<>]*(?:\([^\s()<>]*\)[^\s()<>]*)*)>?(?:\s+"[^"]*")?\s*\)/y;
const BARE = /<?(https?:\/\/[^\s<>"]+[^\s<>".,:;!?)\]'*_])>?/y;

export function inline(text, depth = 0) {
  const nodes = [];
  let plain = "";
  const push = (made, end) => {
    if (plain) nodes.push(plain);
    plain = "";
    nodes.push(made);
    return end;
  };
  const matches = (pattern, at) => {
    pattern.lastIndex = at;
    return pattern.exec(text);
  };
  for (let at = 0; at < text.length;) {
    const c = text[at];
    if (c === "\\" && /[!-/:-@[-`{-~]/.test(text[at + 1] ?? "")) {
      plain += text[at + 1];
      at += 2;
      continue;
    }
    if (c === "`") {
      const [ticks] = text.slice(at).match(/^`+/);
      const end = text.indexOf(ticks, at + ticks.length);
      if (end > 0) {
        at = push(node("code", text.slice(at + ticks.length, end)), end + ticks.length);
        continue;
      }
    }
    if (depth < DEEPEST && (c === "[" || c === "!")) {
      const found = matches(LINK, at);
      const made = found && link(inline(found[1], depth + 1), found[2]);
      if (made) {
        at = push(made, at + found[0].length);
        continue;
      }
    }
    if (c === "h" || c === "<") {
      const found = !wordy(text[at - 1]) && matches(BARE, at);
      const made = found && link([found[1]], found[1]);
      if (made) {
        at = push(made, at + found[0].length);
        continue;
      }
    }
    if (depth < DEEPEST && (c === "*" || c === "_" || c === "~")) {
      const found = emphasis(text, at);
      if (found) {
        at = push(node(found.tag, ...inline(found.inside, depth + 1)), found.end);
        continue;
      }
    }
    if (c === "\n") at = push(node("br"), at + 1);
    else {
      plain += c;
      at += 1;
    }
  }
  if (plain) nodes.push(plain);
  return nodes;
}

const FENCE = /^ {0,3}(`{3,}|~{3,})\s*([\w+#.-]*)/;
const HEADING = /^ {0,3}(#{1,6})\s+(.*?)\s*#*$/;
const RULE = /^ {0,3}([-*_])(\s*\1){2,}\s*$/;
const ITEM = /^( {0,9})([-*+]|\d{1,9}[.)])(\s+|$)/;
const QUOTE = /^ {0,3}> ?/;
const DIVIDER = /^\s*\|?\s*:?-+:?\s*(\|\s*:?-+:?\s*)*\|?\s*$/;
const special = (line) => FENCE.test(line) || HEADING.test(line) || RULE.test(line) || ITEM.test(line) || QUOTE.test(line);

function fence(lines, at) {
  const [, mark, language] = lines[at].match(FENCE);
  let end = at + 1;
  while (end < lines.length && !lines[end].trim().startsWith(mark)) end += 1;
  const code = node("code", lines.slice(at + 1, end).join("\n"));
  if (language) code.dataset.language = language;
  return [node("pre", code), end + 1];
}

function list(lines, at, depth) {
  const [, , mark] = lines[at].match(ITEM);
  const ordered = /\d/.test(mark);
  const made = node(ordered ? "ol" : "ul");
  if (ordered) made.start = Number.parseInt(mark, 10);
  const base = lines[at].match(ITEM)[1].length;
  while (at < lines.length) {
    const item = lines[at].match(ITEM);
    if (!item || item[1].length > base + 1 || /\d/.test(item[2]) !== ordered || RULE.test(lines[at])) break;
    const width = item[0].length;
    const inside = [lines[at].slice(width)];
    at += 1;
    const indented = (line) => /^\s/.test(line) && line.search(/\S/) > base + 1;
    while (at < lines.length && (indented(lines[at]) || (!lines[at].trim() && indented(lines[at + 1] ?? "")))) {
      const line = lines[at];
      inside.push(line.slice(Math.min(width, Math.max(line.search(/\S/), 0))));
      at += 1;
    }
    const children = blocks(inside, depth + 1);
    // A single paragraph is the item's own text.
    const [only] = children;
    made.append(node("li", ...(only?.tagName === "P" ? [...only.childNodes, ...children.slice(1)] : children)));
    if (at < lines.length && !lines[at].trim() && ITEM.test(lines[at + 1] ?? "")) at += 1;
  }
  return [made, at];
}

const cells = (line) => line.trim().replace(/^\||\|$/g, "").split(/(?<!\\)\|/).map((cell) => cell.trim());

function table(lines, at) {
  const row = (line, tag) => node("tr", ...cells(line).map((cell) => node(tag, ...inline(cell))));
  const head = node("thead", row(lines[at], "th"));
  const body = node("tbody");
  for (at += 2; at < lines.length && lines[at].includes("|"); at += 1) body.append(row(lines[at], "td"));
  const scroll = node("div", node("table", head, body));
  scroll.className = "scroll";
  return [scroll, at];
}

function quote(lines, at, depth) {
  let end = at;
  while (end < lines.length && QUOTE.test(lines[end])) end += 1;
  const inside = lines.slice(at, end).map((line) => line.replace(QUOTE, ""));
  return [node("blockquote", ...blocks(inside, depth + 1)), end];
}

function paragraph(lines, at) {
  let end = at + 1;
  while (end < lines.length && lines[end].trim() && !special(lines[end])) end += 1;
  return [node("p", ...inline(lines.slice(at, end).join("\n"))), end];
}

function block(lines, at, depth) {
  const line = lines[at];
  if (FENCE.test(line)) return fence(lines, at);
  const heading = line.match(HEADING);
  if (heading) return [node(`h${Math.min(heading[1].length + 2, 6)}`, ...inline(heading[2])), at + 1];
  if (RULE.test(line)) return [node("hr"), at + 1];
  if (depth < DEEPEST && QUOTE.test(line)) return quote(lines, at, depth);
  if (depth < DEEPEST && ITEM.test(line)) return list(lines, at, depth);
  if (line.includes("|") && DIVIDER.test(lines[at + 1] ?? "") && lines[at + 1].includes("-")) return table(lines, at);
  return paragraph(lines, at);
}

function blocks(lines, depth) {
  const made = [];
  for (let at = 0; at < lines.length;) {
    if (!lines[at].trim()) {
      at += 1;
      continue;
    }
    const [next, end] = block(lines, at, depth);
    made.push(next);
    at = end;
  }
  return made;
}

export function markdown(text) {
  return blocks(text.replace(/\r\n?/g, "\n").replaceAll("\t", "    ").split("\n"), 0);
}
