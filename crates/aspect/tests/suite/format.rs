//! The canonical form: the same meaning, no comment lost, lines that are not too long.

use crate::common::{format, meaning, shown};
use proptest::prelude::*;
use xweave_aspect::Source;

fn formatted(text: &str) -> String {
    format(text).unwrap_or_else(|errors| panic!("{text}: {:?}", shown(&errors)))
}

#[test]
fn the_library_is_in_canonical_form() {
    for name in xweave_aspect::library_names() {
        let source = xweave_aspect::library(name).unwrap_or_else(|| panic!("{name}"));
        let text = source.text.clone();
        assert_eq!(xweave_aspect::format(source).map(|formatted| formatted.text), Ok(text), "{name}");
    }
}

#[test]
fn what_the_library_includes_is_in_canonical_form() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../aspects/include");
    for entry in std::fs::read_dir(folder).unwrap() {
        let text = std::fs::read_to_string(entry.unwrap().path()).unwrap();
        assert_eq!(formatted(&text), text);
    }
}

#[test]
fn lines_are_broken_where_people_would() {
    let text = r#"
# A file's head.

xflow  f{start access(sk_buff.data) ;   # born


  // of a long one
  transit returning(vhost_get_vq_desc@host) AND if($return$ >= 0 && $return$ != READ(vq->num) && vhost_is_net_tx(vq)) xout_move virtio_net from vhost_avail(vq, $return$) to $thread$;
  transit execution(b) move from from(x) to y;transit execution(b) action {
  /* one
     two */ f();
        if (x)
            g();

  h(); }
  quit execution(aaaaaaaaaaaaaaaaaaaaaaaa, bbbbbbbbbbbbbbbbbbbbbbbbbb, cccccccccccccccccccccccccccccccc, dddddddddd) select x;
  # the end
} # behind
advice short execution(a) before { }
execution(a)&&(if(b)||if(c)) after {x();}
advice long execution(aaaaaaaaaaaaaaaaaaaaaaaa) AND if(bbbbbbbbbbbbbbbbbbbb) AND (if(c) OR if(d)) { STORE_DATA1(1); }
# last"#;
    let expected = r#"# A file's head.

xflow f {
    start   access(sk_buff.data); # born

    // of a long one
    transit returning(vhost_get_vq_desc@host)
            AND if($return$ >= 0 && $return$ != READ(vq->num) && vhost_is_net_tx(vq))
            xout_move virtio_net from vhost_avail(vq, $return$) to $thread$;
    transit execution(b) move from from(x) to y;
    transit execution(b) action {
        /* one
           two */ f();
              if (x)
                  g();

        h();
    }
    quit    execution(aaaaaaaaaaaaaaaaaaaaaaaa, bbbbbbbbbbbbbbbbbbbbbbbbbb, cccccccccccccccccccccccccccccccc,
                      dddddddddd)
            select x;
    # the end
} # behind

advice short execution(a) { }
execution(a) AND (if(b) OR if(c)) after { x(); }

advice long
    execution(aaaaaaaaaaaaaaaaaaaaaaaa) AND if(bbbbbbbbbbbbbbbbbbbb) AND (if(c) OR if(d)) { STORE_DATA1(1); }
# last
"#;
    assert_eq!(formatted(text), expected);
    assert_eq!(formatted(expected), expected);
}

#[test]
fn a_comment_is_kept_or_the_file_is_refused() {
    for lost in [
        "xflow # a\n f { start execution(a) select b; }",
        "xflow f { start execution(a) # a\n select b; }",
        "xflow f { start execution(a) select b /* a */; }",
        "xflow f { start execution(a) select /* a */ b; }",
        "advice a // a\n execution(b) { }",
        "execution(b) AND # a\n if(c) { }",
        "execution(b) AND if(c // a\n) { }",
    ] {
        let errors = format(lost).err().unwrap_or_default();
        assert_eq!(errors.len(), 1, "{lost}");
        assert!(errors[0].message.contains("would be lost"), "{lost}");
        assert!(errors[0].column > 1 && errors[0].help.is_some());
    }
    for (kept, expected) in [
        ("execution(b) { // a\n }", "execution(b) {\n    // a\n}\n"),
        ("execution(b) { /* a */ c(); /* d */ } # e", "execution(b) { /* a */ c(); /* d */ } # e\n"),
        ("execution(b) AND if(c /* a */ + d) { }", "execution(b) AND if(c /* a */ + d) { }\n"),
        (
            "xflow f { # a\n quit execution(b) select c; }",
            "xflow f {\n    # a\n    quit    execution(b) select c;\n}\n",
        ),
        ("# a\n\n\n# b\n", "# a\n\n# b\n"),
        ("", ""),
    ] {
        assert_eq!(formatted(kept), expected);
    }
}

/// Texts of pointcuts that nest.
fn pointcuts() -> impl Strategy<Value = String> {
    let atoms = prop::sample::select(vec![
        "execution(a)",
        "returning(tcp_%@vm-1, b?@host, c)@guest",
        "access(sk_buff.len)",
        "access(union a.b.%, write)@h",
        "tracepoint(sched:sched_switch)@host?",
        "user(/usr/sbin/nginx:f.cold)?",
        "within_function(a@b?, c%)",
        "within_file(drivers/.../netfront.c@linuxU, net/ipv4/%, x.c)",
        "target(t)",
        "local_var(v)",
        "local_var(v, w)",
        "arg(0, x)",
        "arg(skb, y)",
        "xflow(f, skb)",
        "xflow(f, a + /* c */ b(1, 2), id)",
        "if(a && b)",
        "if(a\n   // c\n   || b[\"(\"])",
        "pid(0)",
        "comm(kworker%)",
        "comm(\"a \\\"b\\\\ %\")",
        "comm(\"\")",
        "execution(a_function_with_a_long_name, another_function_with_a_name, one_more_of_them_that_is_long, and_one)",
    ]);
    atoms.prop_map(str::to_owned).prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 2..5).prop_map(|parts| format!("({})", parts.join(" AND "))),
            prop::collection::vec(inner.clone(), 2..5).prop_map(|parts| format!("({})", parts.join("\n|| "))),
            prop::collection::vec(inner.clone(), 2..4).prop_map(|parts| parts.join(" OR ")),
            inner.prop_map(|part| format!("NOT ({part})")),
        ]
    })
}

fn items() -> impl Strategy<Value = String> {
    let exact = || prop::sample::select(vec!["", "every ", "first ", "function "]);
    let name =
        prop::sample::select(vec!["", "advice ", "advice n ", "advice first every ", "advice if every "]);
    let when = prop::sample::select(vec!["", " before", " after"]);
    let body = || {
        prop::sample::select(vec![
            "{}",
            "{ a(); }",
            "{ a(); // b\n }",
            "{\n\t\ta();\n\t\tif (b)\n\t\t\tc();\n\n\n  d(\"x\\\n  y\"); }",
            "{ /* a\n b\n\n      c */ d(); }",
            "{ a_long_statement_that_fills_a_line_alone(with, many, arguments); another_of_them(that, does, so); }",
        ])
    };
    let comment = || prop::sample::select(vec!["", "# a\n", "\n\n// b\n\n"]);
    let act = prop_oneof![
        prop::sample::select(vec![
            ("start", ";"),
            ("quit", ";"),
            ("start", "select a->b;"),
            ("quit", "select $return$; # c"),
            ("transit", "move from to (to);"),
            ("transit", "copy from from.a to b;"),
            ("transit", "split -from + 1 to b;"),
            ("transit", "merge from (a) to b;"),
            ("transit", "xin_copy c from (u64)d & ~7UL to e(\n f,\n g);"),
            (
                "transit",
                "xout_move c from e(a_long_key, that_has_many_words, so_that_the_line_is_broken) to f;"
            ),
        ])
        .prop_map(|(kind, act)| (kind, act.to_owned())),
        body().prop_map(|body| ("transit", format!("action {body}"))),
    ];
    let clause =
        (comment(), act, exact(), pointcuts()).prop_map(|(comment, (kind, act), exact, pointcut)| {
            format!("{comment}{kind} {exact}{pointcut} {act}")
        });
    let xflow = (comment(), prop::collection::vec(clause, 0..4))
        .prop_map(|(comment, clauses)| format!("{comment}xflow f {{ {}\n{comment}}}", clauses.join("\n")));
    let advice = (comment(), name, exact(), pointcuts(), when, body()).prop_map(
        |(comment, name, exact, pointcut, when, body)| {
            let exact = if name.ends_with("every ") { "" } else { exact };
            format!("{comment}{name}{exact}{pointcut}{when} {body}")
        },
    );
    prop::collection::vec(prop_oneof![xflow, advice], 0..4).prop_map(|items| items.join("\n"))
}

/// Of a text that the checker may not like.
fn meaning_of(text: &str) -> String {
    let source = Source { name: "x.aspect".into(), text: text.into() };
    let formatted = xweave_aspect::format(source);
    meaning(&formatted.unwrap_or_else(|errors| panic!("{text}\n{:?}", shown(&errors))).aspects)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn the_meaning_stays(text in items()) {
        let new = formatted(&text);
        prop_assert_eq!(meaning_of(&text), meaning_of(&new), "{}", new);
        prop_assert_eq!(&formatted(&new), &new);
        let comments = |text: &str| text.matches(['#']).count();
        prop_assert_eq!(comments(&text), comments(&new), "{}", new);
    }
}
