//! The kernel's conversions behind `%p`: addresses of networks and of hardware, identifiers.
//!
//! Source: `Documentation/core-api/printk-formats.rst`.

use std::io::Write;

use crate::perfdata::Endian;

use super::data::Place;
use super::data::Raw;

/// What bytes stand for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    /// Six bytes, with this between them.
    Mac { between: &'static str, order: Order },
    /// An IPv4 address.
    Ipv4 { zeros: Zeros, order: Order },
    /// An IPv6 address.
    Ipv6(Ipv6),
    /// A `struct sockaddr`.
    Socket { zeros: Zeros, order: Order, ipv6: Ipv6, port: Port },
    /// A UUID.
    Uuid { case: Case, is_guid: bool },
}

/// Whether the first byte comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    Forward,
    Backward,
    /// As the recorded machine orders bytes of a number.
    Host,
}

/// Whether numbers have leading zeros.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Zeros {
    Leading,
    None,
}

/// How an IPv6 address is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ipv6 {
    /// 32 digits.
    Digits,
    /// Eight numbers of four digits.
    Full,
    /// As short as can be.
    Compressed,
}

/// Whether a port is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Port {
    Shown,
    Hidden,
}

/// The letters of hexadecimal numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Case {
    Lower,
    Upper,
}

const AF_INET: u64 = 2;
const AF_INET6: u64 = 10;

impl Order {
    fn is_backward(self, endian: Endian) -> bool {
        match self {
            Self::Forward => false,
            Self::Backward => true,
            Self::Host => endian == Endian::Little,
        }
    }
}

impl Format {
    /// Appends the content of `place`, or that it cannot be what it is said to be.
    pub(super) fn print(self, raw: Raw<'_>, place: &Place, out: &mut Vec<u8>) {
        let bytes = raw.content(place);
        match self {
            Self::Mac { between, order } => match bytes.try_into() {
                Ok(bytes) => mac(bytes, between, order, out),
                Err(_) => out.extend_from_slice(b"INVALIDMAC"),
            },
            Self::Ipv4 { zeros, order } => match bytes.try_into() {
                Ok(bytes) => ipv4(bytes, zeros, order, raw.endian, out),
                Err(_) => out.extend_from_slice(b"INVALIDIPv4"),
            },
            Self::Ipv6(form) => match bytes.try_into() {
                Ok(bytes) => form.print(bytes, out),
                Err(_) => out.extend_from_slice(b"INVALIDIPv6"),
            },
            Self::Socket { zeros, order, ipv6: form, port } => {
                let family = Raw::new(bytes, raw.endian).number(0, 2);
                let number = u16::from_be_bytes(array(bytes, 2).unwrap_or_default());
                let number = (port == Port::Shown).then_some(number);
                match family {
                    AF_INET if bytes.len() < 16 => out.extend_from_slice(b"INVALIDIPv4"),
                    AF_INET => {
                        let addr = array(bytes, 4).unwrap_or_default();
                        ipv4(addr, zeros, order, raw.endian, out);
                        if let Some(number) = number {
                            write!(out, ":{number}").expect("writing to memory");
                        }
                    }
                    AF_INET6 if bytes.len() < 28 => out.extend_from_slice(b"INVALIDIPv6"),
                    AF_INET6 => {
                        let addr = array(bytes, 8).unwrap_or_default();
                        match number {
                            None => form.print(addr, out),
                            Some(number) => {
                                out.push(b'[');
                                form.print(addr, out);
                                write!(out, "]:{number}").expect("writing to memory");
                            }
                        }
                    }
                    _ => {}
                }
            }
            Self::Uuid { case, is_guid } => match bytes.try_into() {
                Ok(bytes) => uuid(bytes, case, is_guid, out),
                Err(_) => out.extend_from_slice(b"INVALIDUUID"),
            },
        }
    }
}

fn array<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..)?.first_chunk().copied()
}

fn mac(mut bytes: [u8; 6], between: &str, order: Order, out: &mut Vec<u8>) {
    if matches!(order, Order::Backward) {
        bytes.reverse();
    }
    for (idx, byte) in bytes.iter().enumerate() {
        if idx > 0 {
            out.extend_from_slice(between.as_bytes());
        }
        hex_byte(*byte, Case::Lower, out);
    }
}

fn ipv4(mut bytes: [u8; 4], zeros: Zeros, order: Order, endian: Endian, out: &mut Vec<u8>) {
    if order.is_backward(endian) {
        bytes.reverse();
    }
    let [a, b, c, d] = bytes;
    match zeros {
        Zeros::None => write!(out, "{a}.{b}.{c}.{d}"),
        Zeros::Leading => write!(out, "{a:03}.{b:03}.{c:03}.{d:03}"),
    }
    .expect("writing to memory");
}

impl Ipv6 {
    fn print(self, bytes: [u8; 16], out: &mut Vec<u8>) {
        let (pairs, _) = bytes.as_chunks::<2>();
        match self {
            Self::Compressed => compressed(bytes, out),
            Self::Digits | Self::Full => {
                for (idx, pair) in pairs.iter().enumerate() {
                    if idx > 0 && self == Self::Full {
                        out.push(b':');
                    }
                    for byte in pair {
                        hex_byte(*byte, Case::Lower, out);
                    }
                }
            }
        }
    }
}

/// The longest run of zeros as `::`, and IPv4 where an address is one in other clothes.
fn compressed(bytes: [u8; 16], out: &mut Vec<u8>) {
    let mut words = [0_u16; 8];
    for (word, pair) in words.iter_mut().zip(bytes.as_chunks::<2>().0) {
        *word = u16::from_be_bytes(*pair);
    }
    let is_mapped = words[..5] == [0; 5] && words[5] == 0xffff;
    // ISATAP: the address of an interface that tunnels through IPv4.
    let is_isatap = words[4] & !0x0200 == 0 && words[5] == 0x5efe;
    let has_ipv4 = is_mapped || is_isatap;
    let shown = &words[..if has_ipv4 { 6 } else { 8 }];
    let run = |from: usize| shown[from..].iter().take_while(|it| **it == 0).count();
    let mut longest = (0, 1);
    for from in 0..shown.len() {
        // Of two equal ones the first, and a single zero is not worth it.
        if run(from) > longest.1 {
            longest = (from, run(from));
        }
    }
    let (from, len) = if longest.1 > 1 { longest } else { (shown.len(), 0) };
    let mut needs_colon = false;
    let mut idx = 0;
    while idx < shown.len() {
        if idx == from {
            out.extend_from_slice(b"::");
            needs_colon = false;
            idx += len;
            continue;
        }
        if needs_colon {
            out.push(b':');
        }
        write!(out, "{:x}", shown[idx]).expect("writing to memory");
        needs_colon = true;
        idx += 1;
    }
    if has_ipv4 {
        if needs_colon {
            out.push(b':');
        }
        let [.., a, b, c, d] = bytes;
        ipv4([a, b, c, d], Zeros::None, Order::Forward, Endian::Big, out);
    }
}

fn uuid(bytes: [u8; 16], case: Case, is_guid: bool, out: &mut Vec<u8>) {
    const GUID: [usize; 16] = [3, 2, 1, 0, 5, 4, 7, 6, 8, 9, 10, 11, 12, 13, 14, 15];
    for (idx, guid_idx) in GUID.into_iter().enumerate() {
        let from = if is_guid { guid_idx } else { idx };
        hex_byte(bytes[from], case, out);
        if matches!(idx, 3 | 5 | 7 | 9) {
            out.push(b'-');
        }
    }
}

/// Appends two hexadecimal digits.
pub(super) fn hex_byte(byte: u8, case: Case, out: &mut Vec<u8>) {
    let digits = match case {
        Case::Lower => b"0123456789abcdef",
        Case::Upper => b"0123456789ABCDEF",
    };
    out.push(digits[usize::from(byte >> 4)]);
    out.push(digits[usize::from(byte & 15)]);
}

#[cfg(test)]
mod tests {
    use super::super::data::PlaceKind;
    use super::*;

    #[track_caller]
    fn check(format: Format, bytes: &[u8], want: &str) {
        let place = Place { offset: 0, len: bytes.len(), element_len: 1, kind: PlaceKind::Here };
        let mut out = Vec::new();
        format.print(Raw::new(bytes, Endian::Little), &place, &mut out);
        assert_eq!(String::from_utf8(out).unwrap(), want);
    }

    const V4: Format = Format::Ipv4 { zeros: Zeros::None, order: Order::Forward };
    const V6C: Format = Format::Ipv6(Ipv6::Compressed);

    #[test]
    fn network_addresses_are_short() {
        check(V4, &[127, 0, 0, 1], "127.0.0.1");
        check(V4, &[127, 0, 0], "INVALIDIPv4");
        let host = Format::Ipv4 { zeros: Zeros::Leading, order: Order::Host };
        check(host, &[1, 0, 0, 127], "127.000.000.001");
        let v6 = |words: [u16; 8]| words.iter().flat_map(|it| it.to_be_bytes()).collect::<Vec<_>>();
        check(V6C, &v6([0, 0, 0, 0, 0, 0, 0, 1]), "::1");
        check(V6C, &v6([0, 0, 0, 0, 0, 0, 0, 0]), "::");
        check(V6C, &v6([0xfe80, 0, 0, 0, 0, 1, 0, 0]), "fe80::1:0:0");
        check(V6C, &v6([0x2001, 0xdb8, 0, 1, 1, 1, 1, 1]), "2001:db8:0:1:1:1:1:1");
        check(V6C, &v6([0, 0, 0, 0, 0, 0xffff, 0x7f00, 1]), "::ffff:127.0.0.1");
        let full = Format::Ipv6(Ipv6::Full);
        check(full, &v6([0, 0, 0, 0, 0, 0, 0, 1]), "0000:0000:0000:0000:0000:0000:0000:0001");
    }

    #[test]
    fn a_socket_is_shown_with_its_port() {
        let (zeros, order) = (Zeros::None, Order::Forward);
        let format = Format::Socket { zeros, order, ipv6: Ipv6::Compressed, port: Port::Shown };
        let mut v4 = vec![2, 0, 0x1f, 0x90, 10, 0, 0, 7];
        check(format, &v4, "INVALIDIPv4");
        v4.resize(16, 0);
        check(format, &v4, "10.0.0.7:8080");
        let mut v6 = vec![0; 28];
        (v6[0], v6[3], v6[23]) = (10, 80, 1);
        check(format, &v6, "[::1]:80");
        check(format, &[1; 28], "");
    }

    #[test]
    fn bytes_of_identifiers_come_in_order() {
        let bytes: Vec<u8> = (0..16).collect();
        let uuid = |is_guid| Format::Uuid { case: Case::Lower, is_guid };
        check(uuid(false), &bytes, "00010203-0405-0607-0809-0a0b0c0d0e0f");
        check(uuid(true), &bytes, "03020100-0504-0706-0809-0a0b0c0d0e0f");
        let mac = Format::Mac { between: ":", order: Order::Forward };
        check(mac, &[1, 2, 3, 4, 5, 0xff], "01:02:03:04:05:ff");
    }
}
