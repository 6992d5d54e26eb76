//! Numbers into a buffer: `script` prints a gigabyte of them.

/// Hexadecimal as C's `%#lx` prints it: zero has no prefix.
pub(super) fn alternate(value: u64) -> String {
    if value == 0 { "0".to_owned() } else { format!("{value:#x}") }
}

/// Appends `value` in decimal, right-aligned in `width`.
pub(super) fn decimal(value: u64, width: usize, out: &mut Vec<u8>) {
    let mut digits = [b' '; 20];
    let mut at = digits.len();
    let mut rest = value;
    loop {
        at -= 1;
        digits[at] = b'0' + u8::try_from(rest % 10).unwrap_or(0);
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    pad(digits.len() - at, width, out);
    out.extend_from_slice(&digits[at..]);
}

/// Appends `value` in decimal with its sign, right-aligned in `width`.
pub(super) fn signed(value: i32, width: usize, out: &mut Vec<u8>) {
    if value >= 0 {
        return decimal(u64::from(value.unsigned_abs()), width, out);
    }
    let start = out.len();
    out.push(b'-');
    decimal(u64::from(value.unsigned_abs()), 0, out);
    let len = out.len() - start;
    out.splice(start..start, std::iter::repeat_n(b' ', width.saturating_sub(len)));
}

/// Appends `value` in decimal with leading zeros up to `digits`.
pub(super) fn zero_padded(value: u64, digits: usize, out: &mut Vec<u8>) {
    let start = out.len();
    decimal(value, digits, out);
    for byte in &mut out[start..] {
        if *byte == b' ' {
            *byte = b'0';
        }
    }
}

const DIGITS: &[u8; 16] = b"0123456789abcdef";

/// Appends `value` in hexadecimal, right-aligned in `width`.
pub(super) fn hex(value: u64, width: usize, out: &mut Vec<u8>) {
    let n_digits = (64 - (value | 1).leading_zeros()).div_ceil(4) as usize;
    let at = out.len();
    out.resize(at + width.max(n_digits), b' ');
    put_hex(value, &mut out[at..]);
}

/// Writes `value` in hexadecimal to `room`, right-aligned, as far as it fits.
pub(super) fn put_hex(value: u64, room: &mut [u8]) {
    room.fill(b' ');
    let mut rest = value;
    for digit in room.iter_mut().rev() {
        *digit = DIGITS[(rest & 15) as usize];
        rest >>= 4;
        if rest == 0 {
            break;
        }
    }
}

fn pad(len: usize, width: usize, out: &mut Vec<u8>) {
    out.extend(std::iter::repeat_n(b' ', width.saturating_sub(len)));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(print: impl Fn(&mut Vec<u8>), want: &str) {
        let mut out = Vec::new();
        print(&mut out);
        assert_eq!(String::from_utf8(out).unwrap(), want);
    }

    #[test]
    fn numbers_are_aligned_as_printf_does() {
        check(|out| decimal(0, 3, out), "  0");
        check(|out| decimal(u64::MAX, 3, out), "18446744073709551615");
        check(|out| signed(-1, 7, out), "     -1");
        check(|out| signed(42, 4, out), "  42");
        check(|out| zero_padded(7, 3, out), "007");
        check(|out| zero_padded(1234, 3, out), "1234");
        check(|out| hex(0, 4, out), "   0");
        check(|out| hex(0x10, 4, out), "  10");
        check(|out| hex(u64::MAX, 4, out), "ffffffffffffffff");
    }
}
