//! What `__cxa_demangle` of GCC 14's libstdc++ made of each name.

use super::*;

const CAP: usize = 1 << 16;

const NAMES: &[(&str, &str)] = &[
    ("_Z3foov", "foo()"),
    ("_Z3fooiPKcRS_OSs", "foo(int, char const*, char const&, std::string&&)"),
    ("_ZN1N1A3getEv", "N::A::get()"),
    ("_ZNK1N1A3getERKS0_", "N::A::get(N::A const&) const"),
    ("_ZNKR1A3getEv", "A::get() const &"),
    ("_ZNO1A3getEv", "A::get() &&"),
    ("_ZN12_GLOBAL__N_14workEv", "(anonymous namespace)::work()"),
    (
        "_ZNSt6vectorIiSaIiEE9push_backERKi",
        "std::vector<int, std::allocator<int> >::push_back(int const&)",
    ),
    ("_ZNSs6appendEPKc", "std::string::append(char const*)"),
    (
        "_ZNSsC1ERKSs",
        "std::basic_string<char, std::char_traits<char>, std::allocator<char> >::basic_string(std::string const&)",
    ),
    (
        "_ZNSsD2Ev",
        "std::basic_string<char, std::char_traits<char>, std::allocator<char> >::~basic_string()",
    ),
    ("_ZNSolsEi", "std::ostream::operator<<(int)"),
    (
        "_ZNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEC1IS3_EEPKcRKS3_",
        "std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> >::basic_string<std::allocator<char> >(char const*, std::allocator<char> const&)",
    ),
    ("_ZN1AC2ERKS_", "A::A(A const&)"),
    ("_ZN1AD0Ev", "A::~A()"),
    ("_ZN1AcviEv", "A::operator int()"),
    ("_ZN1AcvT_IiEEv", "A::operator int<int>()"),
    ("_Z3maxIiET_S0_S0_", "int max<int>(int, int)"),
    ("_Z1fIJidEEvDpT_", "void f<int, double>(int, double)"),
    ("_Z1fIJEEvDpT_", "void f<>()"),
    ("_Z4callIPFivEEvT_", "void call<int (*)()>(int (*)())"),
    ("_Z1fPA3_i", "f(int (*) [3])"),
    ("_Z1fRA3_A4_Kc", "f(char const (&) [3][4])"),
    ("_Z1fM1AFivE", "f(int (A::*)())"),
    ("_Z1fM1AKFivE", "f(int (A::*)() const)"),
    ("_Z1fM1Ai", "f(int A::*)"),
    ("_Z1fPFPFvcEiE", "f(void (*(*)(int))(char))"),
    ("_Z1gIiEPFvT_Ev", "void (*g<int>())(int)"),
    ("_Z1fILi3ELb1ELm4EEvv", "void f<3, true, 4ul>()"),
    ("_Z1fILin3EEvv", "void f<-3>()"),
    ("_Z1fILc97EEvv", "void f<(char)97>()"),
    ("_Z1fILd4000000000000000EEvv", "void f<(double)[4000000000000000]>()"),
    ("_Z1fIXadL_Z1gvEEEvv", "void f<&(g())>()"),
    ("_Z1fIXadL_ZN1N1gEvEEEvv", "void f<&N::g>()"),
    ("_Z1fILN1N1EE2EEvv", "void f<(N::E)2>()"),
    ("_ZZ4mainE1x_0", "main::x"),
    ("_ZZ4mainE3str__12_", "main::str"),
    ("_ZZN1A1fEvENKUlvE_clEv", "A::f()::{lambda()#1}::operator()() const"),
    (
        "_ZZN1A1fEvENKUliT_E0_clIcEEDaiS0_",
        "auto A::f()::{lambda(int, auto:1)#2}::operator()<char>(int, char) const",
    ),
    ("_ZN1AUt_C2Ev", "A::{unnamed type#1}::A()"),
    ("_ZZ1fvEN1L1gEv", "f()::L::g()"),
    ("_ZZ1fiEd_NKUlvE_clEv", "f(int)::{default arg#1}::{lambda()#1}::operator()() const"),
    ("_ZZ1fvEs", "f()::string literal"),
    ("_ZTV1A", "vtable for A"),
    ("_ZTI1A", "typeinfo for A"),
    ("_ZTS1A", "typeinfo name for A"),
    ("_ZTT1A", "VTT for A"),
    ("_ZThn16_N1A1fEv", "non-virtual thunk to A::f()"),
    ("_ZTv0_n24_N1A1fEv", "virtual thunk to A::f()"),
    ("_ZGVZ1fvE1x", "guard variable for f()::x"),
    ("_ZTC1A8_1B", "construction vtable for B-in-A"),
    ("_ZTW1x", "TLS wrapper function for x"),
    ("_ZTH1x", "TLS init function for x"),
    ("_Z3fooB5cxx11v", "foo[abi:cxx11]()"),
    ("_ZN1AB3tagC1Ev", "A[abi:tag]::A()"),
    ("_Znwm", "operator new(unsigned long)"),
    ("_ZdaPv", "operator delete[](void*)"),
    ("_ZN1AaSERKS_", "A::operator=(A const&)"),
    ("_ZN1AltERKS_", "A::operator<(A const&)"),
    ("_ZN1AltIiEEbT_", "bool A::operator< <int>(int)"),
    ("_Zli2_mPKc", "operator\"\" _m(char const*)"),
    ("_ZN1A1fEv.cold", "A::f() [clone .cold]"),
    ("_ZN1A1fEv.isra.0.constprop.1", "A::f() [clone .isra.0] [clone .constprop.1]"),
    ("_ZN1A1fEv.llvm.123456", "A::f() [clone .llvm.123456]"),
    ("_Z1fDn", "f(decltype(nullptr))"),
    ("_Z1fDv4_f", "f(float __vector(4))"),
    ("_Z1fCd", "f(double _Complex)"),
    ("_Z1fDF16_DF32xDF16b", "f(_Float16, _Float32x, std::bfloat16_t)"),
    ("_Z1fDsDiDuw", "f(char16_t, char32_t, char8_t, wchar_t)"),
    ("_Z1fVPVKi", "f(int const volatile* volatile)"),
    ("_Z1fPVKPKi", "f(int const* const volatile*)"),
    ("_Z1fIiEDTplfp_fp0_ET_S1_", "decltype ({parm#1}+{parm#2}) f<int>(int, int)"),
    ("_Z1fIiEDTclL_Z1gvEEET_", "decltype (g()) f<int>(int)"),
    ("_Z1fIJilEEDTspfp_EDpT_", "decltype ({parm#1}...) f<int, long>(int, long)"),
    ("_Z1fIJidEENSt5tupleIJDpT_EEEv", "std::tuple<int, double> f<int, double>()"),
    ("_Z1fIJidEEvPAsZT__c", "void f<int, double>(char (*) [2])"),
    (
        "_Z1fIiENSt9enable_ifIXsr3std9is_same_vIT_iEEvE4typeES1_",
        "std::enable_if<std::is_same_v<int, int>, void>::type f<int>(std)",
    ),
    (
        "_Z1fIiENSt9enable_ifIXntsr3stdE9is_same_vIT_iEEvE4typeES1_",
        "std::enable_if<!(std::is_same_v<int, int>), void>::type f<int>(int)",
    ),
    ("_Z1fIiEvDTcvT_Li0EE", "void f<int>(decltype ((int)(0)))"),
    ("_Z1fIiEDTscT_Li0EES0_", "decltype (static_cast<int>(0)) f<int>(int)"),
    ("_Z1fIiEDTquLb1Efp_fp_ET_", "decltype ((true)?{parm#1} : {parm#1}) f<int>(int)"),
    ("_Z1fIiEDTnw_T_EES0_", "decltype (new int) f<int>(int)"),
    ("_Z1fIiEDTixfp_Li0EET_", "decltype ({parm#1}[0]) f<int>(int)"),
    ("_Z1fIiEDTdtfp_1xET_", "decltype ({parm#1}.x) f<int>(int)"),
    ("_Z1fIiEDTgtfp_Li0EET_", "decltype (({parm#1}>(0))) f<int>(int)"),
    ("_Z1fIiEDTtlT_Li0EEES0_", "decltype (int{0}) f<int>(int)"),
    ("_Z1fIiEDTppfp_ET_", "decltype ({parm#1}++) f<int>(int)"),
    ("_Z1fIiEDTpp_fp_ET_", "decltype (++{parm#1}) f<int>(int)"),
    ("_Z1fIJiiEEDTfrplfp_EDpT_", "decltype (({parm#1}+...)) f<int, int>(int, int)"),
    ("_Z1fIJiiEEDTflplfp_EDpT_", "decltype ((...+{parm#1})) f<int, int>(int, int)"),
    ("_Z1fIJiiEEDTfRplfp_Li0EEDpT_", "decltype (({parm#1}+...+(0))) f<int, int>(int, int)"),
    ("_Z1fIiEvRAstT__c", "void f<int>(char (&) [sizeof (int)])"),
    ("_Z1fPDoFvvE", "f(void (*)() noexcept)"),
    ("_Z1fU8vendor1Pi", "f(int vendor1P)"),
    ("_ZN1AF1gEv", "A::g[friend]()"),
    ("_ZDC1a1bE", "[a, b]"),
    (
        "_ZZ1fvENKUlTyT_E_clIiEEDaS_",
        "auto f()::{lambda<typename $T0>($T0)#1}::operator()<int>(int) const",
    ),
    ("_Z1fIN1A1BEEvNT_1CE", "void f<A::B>(A::B::C)"),
    ("_Z1fI1AEvOT_", "void f<A>(A&&)"),
    ("_Z1fIR1AEvOT_", "void f<A&>(A&)"),
    ("_Z1fIO1AEvRT_", "void f<A&&>(A&)"),
    ("_Z1fIA3_cEvRKT_", "void f<char [3]>(char const (&) [3])"),
    ("_Z1fIFvvEEvPT_", "void f<void ()>(void (*)())"),
    ("_Z1fI3VecEvT_IiE", "void f<Vec>(Vec<int>)"),
    (
        "_ZNSt8functionIFvRKSsEEC1IZ4mainEUlS1_E_EET_",
        "std::function<void (std::string const&)>::function<main::{lambda(std::string const&)#1}>(main::{lambda(std::string const&)#1})",
    ),
    ("_GLOBAL__I_foo", "global constructors keyed to foo"),
    ("_GLOBAL__D__ZN1A1fEv", "global destructors keyed to A::f()"),
];

#[test]
fn names_are_shown_as_libstdcxx_shows_them() {
    for (name, want) in NAMES {
        assert_eq!(demangle(name, CAP).as_deref(), Some(*want), "{name}");
    }
}

#[test]
fn what_makes_no_sense_is_no_name() {
    let names = [
        "_ZTc0_h4_N1A1fEv",
        "_ZGR1x_",
        "_Z1fIXnxcvivEEEvv",
        "_Z",
        "_ZN1A1fEv@plt",
        "_ZNK",
        "_Z1fT_",
        "_Z1fS_",
        "_Z1fIiEvT0_",
    ];
    for name in names {
        assert_eq!(demangle(name, CAP), None, "{name}");
    }
}

/// `f(P<P<..>, P<..> >)`, where each of `n_levels` doubles what is shown.
fn doubling(n_levels: usize) -> String {
    let open = "S_I".repeat(n_levels - 2);
    let digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ".chars().take(n_levels - 1);
    let close = digits.fold(String::new(), |close, digit| close + &format!("S{digit}_E"));
    format!("_Z1f1PI{open}S_IiiE{close}")
}

#[test]
fn a_name_that_doubles_at_each_level_is_refused_at_the_cap() {
    let shown = "f(P<P<P<int, int>, P<int, int> >, P<P<int, int>, P<int, int> > >)";
    assert_eq!(demangle(&doubling(3), CAP).as_deref(), Some(shown));
    let len = demangle(&doubling(12), CAP).map(|it| it.len());
    assert_eq!(len, Some(34_813));
    // 36 MB, if it were shown.
    assert_eq!(demangle(&doubling(22), CAP), None);
}

#[test]
fn deep_nesting_is_refused_and_not_followed() {
    assert_eq!(demangle(&format!("_Z1f{}i", "P".repeat(100)), CAP).map(|it| it.len()), Some(106));
    assert_eq!(demangle(&format!("_Z1f{}i", "P".repeat(900)), CAP), None);
    assert_eq!(demangle(&format!("_Z1f{}", "PF".repeat(400)), CAP), None);
    assert_eq!(demangle(&format!("_Z1fI{}", "X".repeat(900)), CAP), None);
    assert_eq!(demangle(&format!("_Z1f{}v", "A".repeat(2000)), CAP), None);
}

#[test]
fn damaged_names_are_shown_or_refused() {
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    for (name, _) in NAMES {
        for end in 0..name.len() {
            let _shown = demangle(&name[..end], CAP);
        }
        for _ in 0..100 {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            let [value, .., at] = state.to_le_bytes();
            let mut bytes = name.as_bytes().to_vec();
            let at = usize::from(at) % bytes.len();
            bytes[at] = 0x20 + value % 0x5f;
            let _shown = demangle(std::str::from_utf8(&bytes).unwrap(), CAP);
        }
    }
}
