//! Walks the syntax tree of a Rust file. `tokens` reads the macros, which have none.

use syn::visit::{self, Visit};
use syn::{Attribute, ImplItem, Item, UseTree};

use super::code::{line, Code, Kind, Mention, Module};
use super::{attributes, tokens};

/// Collects its findings in `code`.
pub struct Reader {
    code: Code,
    within: Vec<String>,
}

impl Reader {
    pub fn read(file: &syn::File, code: Code) -> Code {
        let mut reader = Reader {
            code,
            within: Vec::new(),
        };
        reader.visit_file(file);
        reader.code
    }

    fn mention(&mut self, line: usize, segments: Vec<String>, kind: Kind) {
        let within = self.within.clone();
        self.code.mentions.push(Mention {
            line,
            within,
            segments,
            kind,
        });
    }

    fn use_tree(&mut self, tree: &UseTree, mut before: Vec<String>) {
        match tree {
            UseTree::Path(path) => {
                before.push(path.ident.to_string());
                self.use_tree(&path.tree, before);
            }
            UseTree::Name(name) => self.use_leaf(&name.ident, &name.ident, before),
            UseTree::Rename(rename) => self.use_leaf(&rename.ident, &rename.rename, before),
            UseTree::Glob(glob) => {
                self.mention(line(glob.star_token.spans[0]), before, Kind::Glob);
            }
            UseTree::Group(group) => {
                for tree in &group.items {
                    self.use_tree(tree, before.clone());
                }
            }
        }
    }

    fn use_leaf(&mut self, ident: &syn::Ident, name: &syn::Ident, mut segments: Vec<String>) {
        let mut name = name.to_string();
        if ident != "self" || segments.is_empty() {
            segments.push(ident.to_string());
        } else if name == "self" {
            name = segments.last().cloned().unwrap_or_default();
        }
        self.mention(line(ident.span()), segments, Kind::Use(name));
    }

    fn define(&mut self, item: &Item) {
        let name = match item {
            Item::Const(item) => &item.ident,
            Item::Enum(item) => &item.ident,
            Item::Fn(item) => &item.sig.ident,
            Item::Static(item) => &item.ident,
            Item::Struct(item) => &item.ident,
            Item::Trait(item) => &item.ident,
            Item::Type(item) => &item.ident,
            Item::Union(item) => &item.ident,
            _ => return,
        };
        let item = (self.within.clone(), name.to_string());
        self.code.items.push(item);
    }
}

impl<'ast> Visit<'ast> for Reader {
    // Doc comments and arguments of attributes are not code; `pub(in path)` imports nothing.
    fn visit_attribute(&mut self, _: &'ast Attribute) {}
    fn visit_visibility(&mut self, _: &'ast syn::Visibility) {}

    fn visit_item(&mut self, item: &'ast Item) {
        let all = attributes::of(item);
        let test = all.iter().any(attributes::is_test);
        if let Item::Mod(module) = item {
            let name = module.ident.to_string();
            let path = [&self.within[..], std::slice::from_ref(&name)].concat();
            if test || module.content.is_none() {
                let files = all.iter().filter_map(attributes::path).collect();
                self.code.modules.push(Module { path, files, test });
            } else {
                self.within.push(name);
                visit::visit_item(self, item);
                self.within.pop();
            }
        } else if !test {
            self.define(item);
            visit::visit_item(self, item);
        }
    }

    fn visit_impl_item(&mut self, item: &'ast ImplItem) {
        let test =
            matches!(item, ImplItem::Fn(method) if method.attrs.iter().any(attributes::is_test));
        if !test {
            visit::visit_impl_item(self, item);
        }
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        if item.leading_colon.is_none() {
            self.use_tree(&item.tree, Vec::new());
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        if path.leading_colon.is_none() && path.segments.len() > 1 {
            let segments: Vec<String> = path.segments.iter().map(|s| s.ident.to_string()).collect();
            self.mention(line(path.segments[0].ident.span()), segments, Kind::Path);
        }
        visit::visit_path(self, path);
    }

    fn visit_lit_str(&mut self, text: &'ast syn::LitStr) {
        self.code.strings.push((line(text.span()), text.value()));
    }

    fn visit_expr_method_call(&mut self, call: &'ast syn::ExprMethodCall) {
        let name = format!(".{}", call.method);
        self.code.calls.push((line(call.method.span()), name));
        visit::visit_expr_method_call(self, call);
    }

    fn visit_macro(&mut self, call: &'ast syn::Macro) {
        if let Some(last) = call.path.segments.last() {
            let name = format!("{}!", last.ident);
            self.code.calls.push((line(last.ident.span()), name));
        }
        let mut found = tokens::Found::default();
        found.read(call.tokens.clone());
        self.code.strings.append(&mut found.strings);
        self.code.calls.append(&mut found.calls);
        for (line, segments) in found.paths {
            self.mention(line, segments, Kind::Path);
        }
        visit::visit_macro(self, call);
    }
}
