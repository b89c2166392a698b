//! Places in code, as kernels' own messages write them.

/// A function, or an instruction in it: `tcp_sendmsg`, `tcp_sendmsg+0x1f`.
pub fn location(function: &str, offset: u64) -> String {
    match offset {
        0 => function.to_owned(),
        _ => format!("{function}+{offset:#x}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_s_beginning_needs_no_offset() {
        assert_eq!([0, 31].map(|offset| location("f", offset)), ["f", "f+0x1f"]);
    }
}
