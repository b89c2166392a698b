//! Numbers of bytes, as people read and write them.

/// Bytes in the unit that suits them: `512 B`, `4.9 KiB`, `922 MiB`.
pub fn size(bytes: f64) -> String {
    let mut value = bytes;
    let mut unit = "B";
    for next in ["KiB", "MiB", "GiB", "TiB"] {
        if value < 1024.0 {
            break;
        }
        (value, unit) = (value / 1024.0, next);
    }
    if unit == "B" || value >= 9.95 { format!("{value:.0} {unit}") } else { format!("{value:.1} {unit}") }
}

/// Reads a number of bytes, with K, M or G: `500M`.
///
/// # Errors
///
/// What is wrong with it and how it is written.
pub fn parse_size(text: &str) -> Result<u64, String> {
    let wrong = || format!("`{text}` is not a size: write a number with K, M or G, as 500M");
    let split = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let scale = match unit {
        "" => 1,
        "K" | "k" => 1 << 10,
        "M" | "m" => 1 << 20,
        "G" | "g" => 1 << 30,
        _ => return Err(wrong()),
    };
    number.parse::<u64>().ok().and_then(|number| number.checked_mul(scale)).ok_or_else(wrong)
}

/// Bytes in hexadecimal digits: build IDs and hashes.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_written_and_read() {
        let written = [512.0, 5_060.6, 56_387.0, 944_476.0 * 1024.0, 3e12].map(size);
        assert_eq!(written, ["512 B", "4.9 KiB", "55 KiB", "922 MiB", "2.7 TiB"]);
        assert_eq!(["7", "4K", "500M", "2g"].map(parse_size), [Ok(7), Ok(4096), Ok(500 << 20), Ok(2 << 30)]);
        for wrong in ["", "K", "1T", "-1", "1 M", "99999999999G"] {
            assert!(parse_size(wrong).is_err_and(|said| said.contains(&format!("`{wrong}`"))));
        }
    }

    #[test]
    fn hexadecimal_digits_are_two_a_byte() {
        assert_eq!(hex(&[0, 0xa5, 0x0f]), "00a50f");
    }
}
