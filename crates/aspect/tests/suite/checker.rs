//! What can be found wrong without a kernel.

use crate::common::mistakes;

#[test]
fn the_checker_needs_no_kernel() {
    for (text, expected) in [
        ("execution(a) { STORE_DATA2(f(1,2)); }", "1:16: `STORE_DATA2` stores 2 values, not 1"),
        (
            "execution(a) { STORE_DATA8(1); }",
            "1:16: there is no `STORE_DATA8`: there are STORE_DATA1 to STORE_DATA7",
        ),
        ("execution(a) { STORE_DATA1(); }", "1:16: `STORE_DATA1` stores 1 value, not 0"),
        ("xflow(f, a) AND execution(a) { }", "1:7: there is no flow `f`: none is defined"),
        ("xflow f { quit execution(a) select b; }", "1:7: the flow `f` never begins"),
        (
            "xflow f { transit execution(a) xout_move c from b(d) to e; }",
            "1:42: carrier `c` has no partner: nothing of flow `f` is put on it",
        ),
        (
            "xflow f { start execution(a) select b; }\nxflow f { start execution(a) select b; }",
            "2:7: the name `f` is used twice for flow: first in x.aspect, line 1",
        ),
    ] {
        assert_eq!(mistakes(text), [expected], "{text}");
    }
}

#[test]
fn what_is_returned_is_known_at_returns_only() {
    for (text, expected) in [
        ("execution(a) { x = $return$; }", "1:20: there is no `$return$` at the entry of a function"),
        ("execution(a) AND if($return$) { }", "1:21: there is no `$return$` at the entry of a function"),
        ("access(a.b) after { x = $return$; }", "1:25: there is no `$return$` at an instruction"),
        ("tracepoint(a:b) AND if($return$) { }", "1:24: there is no `$return$` at a tracepoint"),
        ("user(/a:b) { x = $return$; }", "1:18: there is no `$return$` at a function of a program"),
    ] {
        assert_eq!(mistakes(text), [expected], "{text}");
    }
    for text in ["execution(a) after { f($return$); }", "user(/a:b) after { f($return$); }"] {
        assert_eq!(mistakes(text), [""; 0], "{text}");
    }
}

#[test]
fn pointcuts_must_be_possible() {
    for (text, expected) in [
        ("if(1) { }", "1:4: this pointcut selects no place in the code"),
        ("NOT execution(a) { }", "1:15: this pointcut selects no place in the code"),
        (
            "pid(1) AND within_file(a.c) { }",
            "1:5: `within_file` alone selects nothing: it narrows what others select",
        ),
        (
            "execution(a) AND target(b) { }",
            "1:25: `target` is the structure that `access` selects, and there is no `access` with it",
        ),
        (
            "(access(a.b) OR execution(c)) AND target(d) { }",
            "1:42: `target` is the structure that `access` selects, and there is no `access` with it",
        ),
        ("access(a.b) AND target(c) AND local_var(d, c) { }", "1:44: the name `c` is given twice"),
        ("access(a.b) AND local_var(c) AND local_var(c) { }", "1:44: the name `c` is given twice"),
        ("access(a.b) AND NOT target(c) { }", "1:28: `c` cannot be had from what must not be"),
        (
            "access(a.b) AND execution(c) { }",
            "1:27: nothing is both an instruction and the entry of a function",
        ),
        (
            "(access(a.b) OR if(1)) AND (tracepoint(c:d) OR if(2)) { }",
            "1:42: nothing is both an instruction and a tracepoint",
        ),
        ("tracepoint(a:b) after { }", "1:14: nothing comes after a tracepoint: it is a moment"),
        ("first execution(a) { }", "1:17: `first` chooses among instructions, and there is no `access(…)`"),
        (
            "xflow f { start execution(a); }",
            "1:11: which data this is about is not said: at the entry of a function there is no structure",
        ),
        (
            "execution(a) AND comm(0123456789abcdef) { }",
            "1:23: no thread has this name: the kernel keeps 15 bytes of it",
        ),
        ("execution(a) AND comm(%a) { }", "1:23: `%` can only be at the end of a thread's name"),
        ("execution(a) AND comm(\"\") { }", "1:23: the thread's name is missing"),
    ] {
        assert_eq!(mistakes(text), [expected], "{text}");
    }
    for text in [
        "access(a.b) OR execution(c) { }",
        "access(a.b) AND NOT execution(c) { }",
        "access(a.b) AND target(c) OR access(d.e) AND target(c) { }",
        "execution(a) AND comm(\"0123456789 abcd%\") { }",
        "xflow f { start first access(a.b); quit function access(a.%, write); }",
        "access(a.b) after { }",
        "access(a.b) AND NOT local_var(c) { }",
    ] {
        assert_eq!(mistakes(text), [""; 0], "{text}");
    }
}

#[test]
fn what_nobody_writes_is_refused_in_time() {
    let or = "(if(1) OR if(2)) AND ".repeat(40);
    assert_eq!(
        mistakes(&format!("{or}execution(a) {{ }}")),
        ["1:5: this pointcut comes to more than 1024 alternatives"]
    );
    let or = "if(1) OR ".repeat(900);
    assert_eq!(mistakes(&format!("{or}execution(a) {{ }}")), [""; 0]);
}
