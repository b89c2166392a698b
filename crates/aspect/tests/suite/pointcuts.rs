//! All kinds of pointcuts, how exact they are, and the acts that came with them.

use crate::common::{mistakes, read, shown};
use xweave_aspect::syntax::{Act, Exact, How, Pointcut};

fn only(text: &str) -> Pointcut {
    let aspects = read(&format!("{text} {{ }}")).unwrap_or_else(|errors| panic!("{:?}", shown(&errors)));
    aspects.advice.into_iter().next().map(|advice| advice.pointcut).unwrap_or_else(|| panic!("{text}"))
}

#[test]
fn accesses_name_a_structure_and_members() {
    let Pointcut::Access(access) = only("access( struct sk_buff . cb.% , write )@guest") else { panic!() };
    assert_eq!((access.structure.as_str(), access.member.as_str()), ("sk_buff", "cb.%"));
    assert_eq!((access.how, access.domain.map(|of| of.text)), (Some(How::Write), Some("guest".into())));
    let Pointcut::Access(access) = only("access(sk_buff.len, read)") else { panic!() };
    assert_eq!((access.how, access.span.column, access.span.length), (Some(How::Read), 8, 11));
}

#[test]
fn tracepoints_and_programs_may_be_lacking() {
    let Pointcut::Tracepoint(at) = only("tracepoint(xhci-hcd:xhci_urb_enqueue)@host?") else { panic!() };
    assert_eq!((at.category.as_str(), at.name.as_str(), at.optional), ("xhci-hcd", "xhci_urb_enqueue", true));
    let Pointcut::User(at) = only("user(/usr/lib/x86_64-linux-gnu/libstdc++.so.6:_ZN1a.cold)?@vm-1") else {
        panic!()
    };
    assert_eq!(at.path, "/usr/lib/x86_64-linux-gnu/libstdc++.so.6");
    assert_eq!((at.function.as_str(), at.optional), ("_ZN1a.cold", true));
    assert_eq!(at.domain.map(|of| of.text).as_deref(), Some("vm-1"));
}

#[test]
fn function_may_have_other_names_on_other_kernels() {
    let Pointcut::Execution(names) = only("execution(a | b|c@host?, d)") else { panic!() };
    assert_eq!(names[0].patterns().collect::<Vec<_>>(), ["a", "b", "c"]);
    assert_eq!(names[0].domain.as_ref().map(|of| of.text.as_str()), Some("host"));
    assert!(names[0].optional && !names[1].optional);
    assert_eq!(names[0].to_string(), "a | b | c@host?");
    assert_eq!(names[1].patterns().count(), 1);
    for wrong in ["execution(a | b%)", "execution(tcp_% | b)", "execution(a |)", "execution(a || b)"] {
        let text = format!("advice x {wrong} {{ }}");
        let source = xweave_aspect::Source { name: "x".into(), text };
        assert!(xweave_aspect::parse(vec![source]).is_err(), "{wrong}");
    }
}

#[test]
fn what_narrows_has_names_like_execution() {
    let within = "within_file(drivers/.../netfront.c@linuxU, net/%)@vm1 AND within_function(tcp_%@host, a?)";
    let Pointcut::And(parts) = only(&format!("access(a.b) AND {within}")) else { panic!() };
    let [_, Pointcut::WithinFile(files), Pointcut::WithinFunction(functions)] = &parts[..] else { panic!() };
    let names = |names: &[xweave_aspect::syntax::FunctionName]| -> Vec<_> {
        names
            .iter()
            .map(|name| (name.pattern.clone(), name.domain.as_ref().map(|of| of.text.clone())))
            .collect()
    };
    let some = |text: &str| Some(text.to_owned());
    let expected = [("drivers/.../netfront.c".to_owned(), some("linuxU")), ("net/%".to_owned(), some("vm1"))];
    assert_eq!(names(files), expected);
    assert_eq!(names(functions), [("tcp_%".to_owned(), some("host")), ("a".to_owned(), None)]);
    assert!(functions[1].optional);
}

#[test]
fn names_are_given_to_what_is_there() {
    let text = "access(a.b) AND target(t) AND local_var(v) AND local_var(w, x) AND pid(12) \
                AND comm(kworker%) AND comm(\"a \\\"b\\\\ c\")";
    let Pointcut::And(parts) = only(text) else { panic!() };
    let [_, Pointcut::Target(t), Pointcut::LocalVar(v), Pointcut::LocalVar(w), rest @ ..] = &parts[..] else {
        panic!()
    };
    let [Pointcut::Pid(12, _), Pointcut::Comm(plain), Pointcut::Comm(quoted)] = rest else { panic!() };
    assert_eq!((t.text.as_str(), v.of.text.as_str(), v.name.is_none()), ("t", "v", true));
    assert_eq!(w.name.as_ref().map(|name| name.text.as_str()), Some("x"));
    assert_eq!((plain.text.as_str(), quoted.text.as_str()), ("kworker%", "a \"b\\ c"));
    let Pointcut::And(parts) = only("execution(f) AND arg(0, a) AND arg(skb, b)") else { panic!() };
    let [_, Pointcut::Arg(first), Pointcut::Arg(second)] = &parts[..] else { panic!() };
    assert_eq!((first.of.text.as_str(), second.of.text.as_str()), ("0", "skb"));
}

#[test]
fn the_word_before_a_pointcut_says_how_exact() {
    let text = "advice lengths first access(a.b) { }\nadvice first access(a.b) { }\n\
                advice first every access(a.b) { }\nfunction (access(a.b)) { }\n\
                advice if every (access(a.b) OR access(a.c)) AND pid(1) { }\n\
                advice big (access(a.b) OR access(a.c)) AND pid(1) { }\n\
                xflow f { start first access(a.b); quit every access(a.b) select c; }";
    let aspects = read(text).unwrap_or_else(|errors| panic!("{:?}", shown(&errors)));
    let said: Vec<_> =
        aspects.advice.iter().map(|of| (of.named.then_some(of.name.text.as_str()), of.exact)).collect();
    assert_eq!(
        said,
        [
            (Some("lengths"), Exact::First),
            (None, Exact::First),
            (Some("first"), Exact::Every),
            (None, Exact::Function),
            (Some("if"), Exact::Every),
            (Some("big"), Exact::Every),
        ]
    );
    assert_eq!(aspects.xflows[0].clauses[0].exact, Exact::First);
    assert!(matches!(aspects.xflows[0].clauses[0].act, Act::SelectTarget));
    assert!(matches!(aspects.xflows[0].clauses[1].act, Act::Select(_)));
}

#[test]
fn data_is_split_and_merged_in_transit() {
    let text = "xflow f { start execution(a) select b; transit execution(c) split from d to e;\n\
                transit execution(c) merge from to (to); }";
    let aspects = read(text).unwrap_or_else(|errors| panic!("{:?}", shown(&errors)));
    let [_, split, merge] = &aspects.xflows[0].clauses[..] else { panic!() };
    assert!(
        matches!(&split.act, Act::Split { from, to } if from.to_string() == "d" && to.to_string() == "e")
    );
    assert!(
        matches!(&merge.act, Act::Merge { from, to } if from.to_string() == "from" && to.to_string() == "(to)")
    );
}

#[test]
fn mistakes_say_what_is_right() {
    for (text, message, help) in [
        ("acess(a.b) { }", "expected a pointcut, found `acess`", "did you mean `access(…)`?"),
        ("within_func(a) { }", "expected a pointcut, found `within_func`", "did you mean"),
        (
            "nonsense(a) { }",
            "expected a pointcut, found `nonsense`",
            "there is `execution(…)`, `returning(…)`",
        ),
        ("advice acess(a.b) { }", "expected a pointcut, found `acess`", "did you mean `access(…)`?"),
        ("access(sk_buff) { }", "expected `.` and a member's name, or `.%` for any, found `)`", ""),
        ("access(a.b, both) { }", "expected `read` or `write`, found `both`", ""),
        ("tracepoint(sched_switch) { }", "expected `:` and the tracepoint's name, found `)`", ""),
        ("user(nginx:f) { }", "expected the absolute path of a program or library, found `nginx`", ""),
        ("user(/nginx) { }", "expected `:` and the function's name, found `)`", ""),
        ("arg(0) { }", "expected `,` and a name for the argument, found `)`", ""),
        ("arg(0x, a) { }", "expected an argument's name, or its number from 0, found `0x`", ""),
        ("pid(4294967296) { }", "expected the number of a process, found `4294967296`", ""),
        ("comm(\"a) { }", "this string is not closed on its line", ""),
        (
            "xflow f { begin execution(a) select b; }",
            "expected `start`, `transit`, `quit` or `}`, found `begin`",
            "",
        ),
        (
            "xflow f { trnsit execution(a) move b to c; }",
            "expected `start`, `transit`, `quit` or `}`",
            "did you mean `transit`?",
        ),
        ("xflow f { start execution(a) splt b to c; }", "expected `AND`, `OR`, `select` and the key", ""),
        (
            "xflow f { transit execution(a) splt b to c; }",
            "expected `AND`, `OR`, or what",
            "did you mean `split`?",
        ),
        ("xflow f { start execution(a) split b to c; }", "expected `AND`, `OR`, `select` and the key", ""),
        ("within_file(a.c?) { }", "expected `)`, found `?`", ""),
    ] {
        let errors = read(text).err().unwrap_or_default();
        assert!(errors[0].message.starts_with(message), "{text}: {}", errors[0]);
        assert!(errors[0].help.as_deref().unwrap_or_default().contains(help), "{text}: {}", errors[0]);
        assert_eq!(mistakes(text).len(), 1, "{text}");
    }
}

#[test]
fn what_is_not_known_is_left_open_where_it_decides() {
    let known = |atom: &Pointcut| match atom {
        Pointcut::Pid(pid, _) => Some(*pid == 1),
        _ => None,
    };
    for (text, decided) in [
        ("execution(f) AND pid(1)", None),
        ("execution(f) AND pid(2)", Some(false)),
        ("execution(f) AND NOT (pid(1) OR comm(x))", Some(false)),
        ("execution(f) OR execution(g) AND pid(1)", None),
        ("(execution(f) OR execution(g)) AND (pid(2) OR pid(3))", Some(false)),
    ] {
        assert_eq!(only(text).decide(&known), decided, "{text}");
    }
}
