//! Types as C, written by libbpf.

use std::ffi::CStr;
use std::ffi::c_char;
use std::ffi::c_int;
use std::ffi::c_void;
use std::ptr;
use std::ptr::NonNull;

use libbpf_rs::libbpf_sys as raw;
use nix::errno::Errno;

use super::Refused;

unsafe extern "C" {
    /// `vasprintf(3)`, which libc does not declare, since Rust has no `va_list`.
    fn vasprintf(
        text: *mut *mut c_char,
        format: *const c_char,
        args: *mut raw::__va_list_tag,
    ) -> c_int;
}

/// Types that libbpf has read.
#[derive(Debug)]
struct Types(NonNull<raw::btf>);

impl Drop for Types {
    fn drop(&mut self) {
        // SAFETY: it came from `btf__new`, and nothing else frees it.
        unsafe { raw::btf__free(self.0.as_ptr()) }
    }
}

/// A writer of types, which libbpf holds.
#[derive(Debug)]
struct Dump(NonNull<raw::btf_dump>);

impl Drop for Dump {
    fn drop(&mut self) {
        // SAFETY: it came from `btf_dump__new`, and nothing else frees it.
        unsafe { raw::btf_dump__free(self.0.as_ptr()) }
    }
}

/// The C of the types `ids`, and of those that they need, in an order that compiles.
///
/// `btf` is the raw form of type information, which libbpf checks.
///
/// # Errors
///
/// What libbpf refuses.
pub fn to_c(btf: &[u8], ids: &[u32]) -> Result<String, Refused> {
    let refused = |call| move |errno| Refused::new(call, errno);
    let len = u32::try_from(btf.len()).map_err(|_| Refused::new("read the types", Errno::E2BIG))?;
    // SAFETY: libbpf reads `len` bytes from the start of `btf`, and copies them.
    let types = unsafe { raw::btf__new(btf.as_ptr().cast(), len) };
    let types =
        Types(NonNull::new(types).ok_or_else(Errno::last).map_err(refused("read the types"))?);
    let mut text: Vec<u8> = Vec::new();
    let context = ptr::from_mut(&mut text).cast();
    // SAFETY: `types` is declared before the dump and so lives longer; `write` takes what is handed
    // to it as `context`; no options are given.
    let dump = unsafe { raw::btf_dump__new(types.0.as_ptr(), Some(write), context, ptr::null()) };
    let dump =
        Dump(NonNull::new(dump).ok_or_else(Errno::last).map_err(refused("write the types"))?);
    for &id in ids {
        // SAFETY: the dump is live, and any number may be asked for: what is no type is refused.
        // `text` is not touched by us while libbpf may write to it.
        let result = unsafe { raw::btf_dump__dump_type(dump.0.as_ptr(), id) };
        if result < 0 {
            return Err(Refused::new("write a type", Errno::from_raw(result.wrapping_neg())));
        }
    }
    drop(dump);
    Ok(String::from_utf8_lossy(&text).into_owned())
}

/// Appends to the `Vec<u8>` that `context` points to.
///
/// # Safety
///
/// As libbpf calls it: `context` is that of [`to_c`], `format` and `args` belong together.
unsafe extern "C" fn write(
    context: *mut c_void,
    format: *const c_char,
    args: *mut raw::__va_list_tag,
) {
    let mut piece = ptr::null_mut();
    // SAFETY: by this function's contract `format` and `args` belong together, and `piece` is ours.
    let len = unsafe { vasprintf(&raw mut piece, format, args) };
    // `piece` is undefined if there was no memory for it.
    if len < 0 || piece.is_null() {
        return;
    }
    // SAFETY: the call succeeded, so this is a string that ends with a zero.
    let bytes = unsafe { CStr::from_ptr(piece) }.to_bytes();
    let context: *mut Vec<u8> = context.cast();
    // SAFETY: by this function's contract it points to the vector of `to_c`, which is live and which
    // nobody else uses during the call.
    let text = unsafe { &mut *context };
    text.extend_from_slice(bytes);
    // SAFETY: `vasprintf` allocated it with `malloc`, and `bytes` is not used after this.
    unsafe { libc::free(piece.cast()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `int`, and `struct pair { int low; int high; }`, of this machine's byte order.
    fn pair() -> Vec<u8> {
        let strings = b"\0int\0pair\0low\0high\0";
        let types: [u32; 4 + 3 + 6] = [
            1,
            1 << 24,
            4,
            1 << 24 | 32, // int
            5,
            4 << 24 | 2,
            8, // struct
            10,
            1,
            0, // low
            14,
            1,
            32, // high
        ];
        let types: Vec<u8> = types.iter().flat_map(|it| it.to_ne_bytes()).collect();
        let len = |bytes: &[u8]| u32::try_from(bytes.len()).unwrap();
        let mut btf = Vec::new();
        btf.extend(0xeb9f_u16.to_ne_bytes());
        btf.extend([1, 0]);
        for word in [24, 0, len(&types), len(&types), len(strings)] {
            btf.extend(word.to_ne_bytes());
        }
        [&btf[..], &types, strings].concat()
    }

    #[test]
    fn types_are_written_as_c() {
        let want = "struct pair {\n\tint low;\n\tint high;\n};\n\n";
        assert_eq!(to_c(&pair(), &[2]).unwrap(), want);
        assert_eq!(to_c(&pair(), &[1, 2, 2]).unwrap(), want);
        assert_eq!(to_c(&pair(), &[]).unwrap(), "");
    }

    #[test]
    fn what_is_no_type_is_refused() {
        libbpf_rs::set_print(None);
        assert_eq!(to_c(&pair(), &[9]).unwrap_err().call, "write a type");
        assert_eq!(to_c(b"no types", &[]).unwrap_err().call, "read the types");
    }
}
