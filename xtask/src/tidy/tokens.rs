//! Reads macros, for which the parser only yields tokens.

use proc_macro2::{Delimiter, Ident, TokenStream, TokenTree};
use syn::Lit;

use super::code::line;

/// Each with its line.
#[derive(Default)]
pub struct Found {
    pub paths: Vec<(usize, Vec<String>)>,
    pub strings: Vec<(usize, String)>,
    pub calls: Vec<(usize, String)>,
}

impl Found {
    pub fn read(&mut self, stream: TokenStream) {
        let tokens: Vec<TokenTree> = stream.into_iter().collect();
        let mut at = 0;
        while let Some(token) = tokens.get(at) {
            at += 1;
            match token {
                // Doc comments are not code.
                TokenTree::Punct(punct) if punct.as_char() == '#' => {
                    at += usize::from(is_group(tokens.get(at), Delimiter::Bracket));
                }
                TokenTree::Punct(_) => {}
                TokenTree::Group(group) => self.read(group.stream()),
                TokenTree::Literal(literal) => {
                    if let Lit::Str(text) = Lit::new(literal.clone()) {
                        self.strings.push((line(text.span()), text.value()));
                    }
                }
                TokenTree::Ident(ident) => {
                    let mut path = vec![ident.to_string()];
                    while let Some(next) = segment(&tokens[at..]) {
                        path.push(next.to_string());
                        at += 3;
                    }
                    let last = path.last().map_or("", String::as_str);
                    let at_dot = at >= 2 && is_punct(tokens.get(at - 2), '.');
                    if at_dot && is_group(tokens.get(at), Delimiter::Parenthesis) {
                        self.calls.push((line(ident.span()), format!(".{last}")));
                    } else if is_punct(tokens.get(at), '!') {
                        self.calls.push((line(ident.span()), format!("{last}!")));
                    }
                    if path.len() > 1 {
                        self.paths.push((line(ident.span()), path));
                    }
                }
            }
        }
    }
}

/// The identifier of `::name` at the start.
fn segment(tokens: &[TokenTree]) -> Option<&Ident> {
    match tokens {
        [TokenTree::Punct(one), TokenTree::Punct(two), TokenTree::Ident(name), ..]
            if one.as_char() == ':' && two.as_char() == ':' =>
        {
            Some(name)
        }
        _ => None,
    }
}

fn is_punct(token: Option<&TokenTree>, wanted: char) -> bool {
    matches!(token, Some(TokenTree::Punct(punct)) if punct.as_char() == wanted)
}

fn is_group(token: Option<&TokenTree>, wanted: Delimiter) -> bool {
    matches!(token, Some(TokenTree::Group(group)) if group.delimiter() == wanted)
}

/// The string of `name = ".."`.
pub fn value_of(name: &str, stream: TokenStream) -> Option<String> {
    let tokens: Vec<TokenTree> = stream.into_iter().collect();
    tokens.windows(3).find_map(|three| match three {
        [TokenTree::Ident(ident), equals, TokenTree::Literal(literal)]
            if ident == name && is_punct(Some(equals), '=') =>
        {
            match Lit::new(literal.clone()) {
                Lit::Str(text) => Some(text.value()),
                _ => None,
            }
        }
        _ => None,
    })
}

/// All identifiers with their lines.
pub fn idents(stream: TokenStream, found: &mut Vec<(usize, String)>) {
    for token in stream {
        match token {
            TokenTree::Group(group) => idents(group.stream(), found),
            TokenTree::Ident(ident) => {
                let name = ident.to_string();
                let name = name.strip_prefix("r#").unwrap_or(&name).to_owned();
                found.push((line(ident.span()), name));
            }
            TokenTree::Punct(_) | TokenTree::Literal(_) => {}
        }
    }
}
