// Small helpers for the DOM. Text is only ever set as text.
export const at = (id) => document.getElementById(id);

export function element(tag, { text, title, ...properties } = {}, ...children) {
  const made = document.createElement(tag);
  if (text !== undefined) made.textContent = text;
  if (title) made.title = title;
  Object.assign(made, properties);
  made.append(...children);
  return made;
}

export function button(text, act, properties = {}) {
  const made = element("button", { text, type: "button", ...properties });
  made.addEventListener("click", act);
  return made;
}

export function table(rows) {
  return Object.entries(rows).flatMap(([name, value]) => [element("dt", { text: name }), element("dd", { text: value })]);
}
