//! Bytes written by hand, field by field, in either byte order.

use bpfperf::perfdata::Endian;

/// The bytes of `fields`, which stand apart by blanks, in the order of `endian`:
///
/// ```text
/// 0000002a   a number of as many bytes as it has pairs of digits, highest digit first
/// 'demo'     text
/// 0*3        three bytes of zero
/// =07df90    bytes that no order changes
/// @000400    a word of C bit-fields: bit n counts from the lowest bit of the first byte, or on a
///            big-endian machine from its highest
/// ```
pub(crate) fn bytes(fields: &str, endian: Endian) -> Vec<u8> {
    fields.split_whitespace().flat_map(|field| one(field, endian)).collect()
}

fn one(field: &str, endian: Endian) -> Vec<u8> {
    let ordered = |mut number: Vec<u8>| {
        if endian == Endian::Little {
            number.reverse();
        }
        number
    };
    if let Some(text) = field.strip_prefix('\'') {
        return text.strip_suffix('\'').expect("text ends").as_bytes().to_vec();
    }
    if let Some(n) = field.strip_prefix("0*") {
        return vec![0; n.parse().expect("a number of zeros")];
    }
    if let Some(raw) = field.strip_prefix('=') {
        return digits(raw);
    }
    if let Some(word) = field.strip_prefix('@') {
        let mut word = digits(word);
        word.reverse();
        if endian == Endian::Big {
            for byte in &mut word {
                *byte = byte.reverse_bits();
            }
        }
        return word;
    }
    ordered(digits(field))
}

fn digits(text: &str) -> Vec<u8> {
    assert!(text.len().is_multiple_of(2), "{text} has half a byte");
    let pairs = (0..text.len()).step_by(2);
    pairs.map(|at| u8::from_str_radix(&text[at..at + 2], 16).expect("hexadecimal")).collect()
}

#[test]
fn a_number_is_ordered_and_other_bytes_are_not() {
    let fields = "0102 'ab' 0*1 =0102 @0001";
    assert_eq!(bytes(fields, Endian::Little), b"\x02\x01ab\0\x01\x02\x01\x00");
    assert_eq!(bytes(fields, Endian::Big), b"\x01\x02ab\0\x01\x02\x80\x00");
}
