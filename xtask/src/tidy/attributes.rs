//! Reads the attributes that mark test code and those that set a module's file.

use syn::{Attribute, Item, Lit, Meta};

use super::tokens;

pub fn of(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Macro(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

/// `#[cfg(test)]` or `#[cfg(all(test, ..))]`
pub fn is_test(attribute: &Attribute) -> bool {
    let Meta::List(list) = &attribute.meta else {
        return false;
    };
    let condition = list.tokens.to_string().replace(' ', "");
    list.path.is_ident("cfg") && (condition == "test" || condition.starts_with("all(test,"))
}

/// The file of `#[path = ".."]` or `#[cfg_attr(.., path = "..")]`.
pub fn path(attribute: &Attribute) -> Option<String> {
    match &attribute.meta {
        Meta::NameValue(pair) if pair.path.is_ident("path") => match &pair.value {
            syn::Expr::Lit(syn::ExprLit {
                lit: Lit::Str(file),
                ..
            }) => Some(file.value()),
            _ => None,
        },
        Meta::List(list) if list.path.is_ident("cfg_attr") => {
            tokens::value_of("path", list.tokens.clone())
        }
        _ => None,
    }
}
