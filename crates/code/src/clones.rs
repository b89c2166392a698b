//! Clones: what a compiler makes of a function besides, for some of its calls.
//!
//! GCC names them after the function: `f.part.0` is what is left of it where its beginning was put into the callers,
//! `f.constprop.0` takes the calls with some constant arguments, `f.isra.0` those that pass other arguments for it.
//! Their arguments are not the function's, and type information has nothing of them. `f.cold` is no clone: it is jumped
//! to, and called by nobody.

/// The function that a symbol is a clone of.
pub fn clone_of(symbol: &str) -> Option<&str> {
    let (function, suffixes) = symbol.split_once('.').filter(|(function, _)| !function.is_empty())?;
    let number = |word: &str| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit());
    let clone = |word: &str| matches!(word, "part" | "constprop" | "isra");
    let mut words = suffixes.split('.');
    words
        .all(|word| clone(word) || number(word))
        .then_some(function)
        .filter(|_| suffixes.split('.').any(clone))
}

/// Whether a clone is only a part of its function.
pub fn is_part(clone: &str) -> bool {
    clone.split('.').skip(1).any(|word| word == "part")
}

#[cfg(test)]
mod tests {
    use super::{clone_of, is_part};

    #[test]
    fn what_some_calls_go_to_is_a_clone() {
        for symbol in
            ["f.part.0", "f.constprop.12", "f.isra.0", "f.constprop.0.isra.0", "f.part.0.constprop.0"]
        {
            assert_eq!(clone_of(symbol), Some("f"), "{symbol}");
            assert_eq!(is_part(symbol), symbol.starts_with("f.part"), "{symbol}");
        }
        for symbol in ["f", "f.cold", "f.part.0.cold", "f.0", "f.", ".part.0", "f.llvm.17", "f.partly.0"] {
            assert_eq!(clone_of(symbol), None, "{symbol}");
        }
    }
}
