//! BTF: types, strings, values printed by type.
