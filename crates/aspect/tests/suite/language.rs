//! The native form: what it accepts, what it says about mistakes, and that no text upsets it.

use crate::common::{meaning, mistakes, read};
use proptest::prelude::*;
use xweave_aspect::syntax::{Act, ClauseKind, Pointcut, When};
use xweave_aspect::{Aspects, Source, parse};

const EXAMPLE: &str = r#"# Packets.
xflow packet {
    start   execution(udp_sendmsg@guest) select msg;
    transit returning(ip_make_skb@guest) AND if($return$ != 0) move from from to $return$;
    transit returning(skb_clone) copy skb to $return$;
    transit execution(virtqueue_add_outbuf@guest) xin_copy virtio_net from (u64)data & ~7UL to virtqueue_avail(vq);
    transit returning(vhost_get_vq_desc@host) AND if($return$ >= 0 && vhost_is_net_tx(vq))
        xout_move virtio_net from vhost_avail(vq, $return$) to $thread$;
    transit execution(netif_receive_skb@host) AND NOT xflow(packet, skb) move $thread$ to skb;
    transit execution(tun_sendmsg@host) action { /* ; } */ if (m) { flow_move(packet, from, to); } }
    quit    execution(kfree_skbmem) OR execution(napi_skb_cache_put?) select skb; // the end
}
advice stack execution(ip_output, __dev_queue_xmit, tcp_%) AND xflow(packet, skb, id) before { STORE_DATA1(skb->len); }
execution(foo) { STORE_DATA1($pc$); }
xflow(packet, skb) && (returning(a, b@vm-1.example)@host || !execution(c?@host)) after { STORE_DATA2(f(1, 2), "a,b"); }
"#;

#[test]
fn what_is_included_comes_first_and_its_flow_goes_on_where_it_is() {
    let text =
        "include frames;\nxflow packet { start execution(f) select x; }\nadvice mine execution(f) { x(); }";
    let part = read("include frames;").unwrap();
    let whole = read(text).unwrap();
    assert_eq!((part.xflows.len(), whole.xflows.len()), (1, 1));
    let (of_part, all) = (&part.xflows[0].clauses, &whole.xflows[0].clauses);
    assert_eq!(all.len(), of_part.len() + 1);
    let last = all.last().unwrap();
    assert_eq!((last.span.file, last.span.line), (0, 2));
    let starts = all.iter().filter(|clause| clause.kind == ClauseKind::Start).count();
    assert_eq!(last.name, format!("packet.start{starts}"), "numbered on");
    assert_eq!(all[0].span.file, 1);
    assert_eq!(whole.sources[1].name, "include/frames.aspect");
    assert_eq!(whole.advice.last().unwrap().name.text, "mine");

    // Once, however many include it; and as others read it who are given all of the files.
    let of = |sources: Vec<Source>| parse(sources).unwrap();
    let named = |name: &str, text: &str| Source { name: name.into(), text: text.into() };
    let both = of(vec![
        named("a", text),
        named("b", "include frames; xflow packet { quit execution(g) select x; }"),
    ]);
    assert_eq!((both.xflows.len(), both.sources.len()), (1, 3));
    assert_eq!(both.xflows[0].clauses.len(), of_part.len() + 2);
    let again = of(both.sources.clone());
    assert_eq!((meaning(&again), again.sources), (meaning(&both), both.sources));
}

#[test]
fn what_is_printed_of_aspects_has_what_they_include_in_its_place() {
    let whole = read(
        "advice before_it execution(f) { x(); }\ninclude frames;\nadvice behind_it execution(f) { x(); }",
    )
    .unwrap();
    let text = whole.to_string();
    assert!(!text.contains("include frames"), "{text}");
    let again = read(&text).unwrap();
    assert_eq!(again.xflows[0].clauses.len(), whole.xflows[0].clauses.len());
    let names =
        |aspects: &Aspects| aspects.advice.iter().map(|advice| advice.name.text.clone()).collect::<Vec<_>>();
    assert_eq!(names(&again), names(&whole));
    assert_eq!(names(&whole).first().map(String::as_str), Some("before_it"));
    assert_eq!(names(&whole).last().map(String::as_str), Some("behind_it"));
    assert_eq!(again.to_string(), text);
}

#[test]
fn what_is_not_there_cannot_be_included_and_flows_go_on_only_where_theirs_is() {
    assert_eq!(
        mistakes("include frame;\nexecution(f) { x(); }"),
        ["1:9: the library has nothing to include that is called `frame`"]
    );
    assert_eq!(mistakes("include ;\nexecution(f) { x(); }").len(), 1);
    let named = |name: &str, text: &str| Source { name: name.into(), text: text.into() };
    let twice = parse(vec![
        named("a", "include frames;"),
        named("b", "xflow packet { start execution(f) select x; }"),
    ]);
    let message = &twice.unwrap_err()[0].message;
    assert!(message.contains("the name `packet` is used twice for flow"), "{message}");
}

#[test]
fn the_example_means_what_it_says() {
    let aspects = read(EXAMPLE).unwrap();
    let clauses = &aspects.xflows[0].clauses;
    let names: Vec<_> = clauses.iter().map(|clause| clause.name.as_str()).collect();
    assert_eq!(names[..3], ["packet.start1", "packet.transit1", "packet.transit2"]);
    assert_eq!(clauses[7].kind, ClauseKind::Quit);
    assert_eq!((clauses[3].span.line, clauses[3].span.column), (6, 5));

    let Act::Hand { copy: false, from, to } = &clauses[1].act else { panic!() };
    assert_eq!((from.to_string(), to.to_string()), ("from".into(), "$return$".into()));
    assert_eq!((from.span.line, from.span.column), (4, 74));
    let Act::Xin { copy: true, carrier, from, key } = &clauses[3].act else { panic!() };
    assert_eq!(carrier.text, "virtio_net");
    assert_eq!(
        (from.to_string(), key.to_string()),
        ("(u64)data & ~7UL".into(), "virtqueue_avail(vq)".into())
    );
    let Act::Action(code) = &clauses[6].act else { panic!() };
    assert!(code.to_string().ends_with("to); }"), "{code}");

    let [stack, foo, last] = &aspects.advice[..] else { panic!() };
    assert_eq!((stack.name.text.as_str(), stack.named), ("stack", true));
    assert_eq!((foo.name.text.as_str(), foo.named), ("x.aspect:14", false));
    let Pointcut::And(parts) = &stack.pointcut else { panic!() };
    let [Pointcut::Execution(names), Pointcut::Xflow(test)] = &parts[..] else { panic!() };
    assert_eq!(names[2].pattern, "tcp_%");
    assert_eq!(test.id.as_ref().unwrap().text, "id");
    assert_eq!(last.when, When::After);
    let mut domains = Vec::new();
    last.pointcut.atoms(&mut |atom| {
        if let Pointcut::Execution(names) | Pointcut::Returning(names) = atom {
            domains.extend(names.iter().map(|name| (name.domain.clone().unwrap().text, name.optional)));
        }
    });
    assert_eq!(domains, [("host".into(), false), ("vm-1.example".into(), false), ("host".into(), true)]);
}

#[test]
fn canonical_text_is_read_as_the_same() {
    let first = read(EXAMPLE).unwrap();
    let shown = first.to_string();
    let again = read(&shown).unwrap_or_else(|errors| panic!("{shown}\n{}", errors[0]));
    assert_eq!(meaning(&first), meaning(&again), "{shown}");
    assert_eq!(shown, again.to_string());
}

#[test]
fn from_may_be_a_word_or_a_variable() {
    let from = |text: &str| {
        let text = format!("xflow f {{ start execution(a) select x; transit execution(b) move {text}; }}");
        match &read(&text).unwrap().xflows[0].clauses[1].act {
            Act::Hand { from, .. } => from.to_string(),
            _ => panic!(),
        }
    };
    assert_eq!(from("from to x"), "from");
    assert_eq!(from("from->to to x"), "from->to");
    assert_eq!(from("from from to x"), "from");
    assert_eq!(from("from a to x"), "a");
    assert_eq!(from("from (u64)a to x"), "(u64)a");
    assert_eq!(from("from $thread$ to x"), "$thread$");
    assert_eq!(from("from &a->b to x"), "&a->b");
    assert_eq!(from("f(to) to x"), "f(to)");
}

#[test]
fn one_run_tells_of_several_mistakes() {
    let text = "xflow f {\n  start execution(a) move x to y;\n  transit execution(b) select x;\n  \
                quit execution(a,) select x;\n  quit execution(d) select skb;\n}\n\
                acess(sk_buff.len) { STORE_DATA1(1); }\nexecution(a) { f(a]; }\nexecution(b) { $x$ }";
    assert_eq!(
        mistakes(text),
        [
            "2:22: expected `AND`, `OR`, `select` and the key, `action`, or `;`, found `move`",
            "3:24: expected `AND`, `OR`, or what the flow does here: `move`, `copy`, `split`, `merge`, \
             `xin_move`, `xin_copy`, `xout_move`, `xout_copy`, `action`, found `select`",
            "4:20: expected a function's name, found `)`",
            "7:1: expected a pointcut, found `acess`",
            "8:19: `]` does not close the `(` of line 8, column 17",
            "9:16: after `$`, the weaver knows $return$, $thread$ and $pc$",
        ]
    );
}

#[test]
fn deep_nesting_is_a_mistake_and_no_crash() {
    for text in
        ["(".repeat(100_000), "NOT ".repeat(100_000), "xflow f { start ".to_owned() + &"!".repeat(100_000)]
    {
        assert!(mistakes(&text)[0].contains("nests deeper than 64"));
    }
    assert!(!mistakes(&("execution(a) {".to_owned() + &"({[".repeat(100_000))).is_empty());
}

/// Every place that a mistake names is one that an editor can go to.
fn survives(text: &str) {
    let lines = text.split('\n').count();
    for error in read(text).err().unwrap_or_default() {
        let line = usize::try_from(error.line).unwrap();
        assert!((1..=lines + 1).contains(&line), "{error}");
        assert!(!error.to_string().is_empty());
    }
}

proptest! {
    #[test]
    fn no_text_upsets_it(text in "(?s).{0,200}") {
        survives(&text);
    }

    #[test]
    fn no_words_upset_it(
        words in prop::collection::vec(
            prop::sample::select(vec![
                "xflow", "start", "transit", "quit", "select", "move", "copy", "action", "xin_move", "xout_copy",
                "advice", "before", "after", "execution(", "returning(", "if(", "xflow(", "from", "to", "a", "b",
                "(", ")", "{", "}", ";", ",", "@", "?", "%", "AND", "OR", "NOT", "!", "&&", "$return$", "$", "\"",
                "'", "/*", "//", "#", "\n", "ü", "[", "]", "STORE_DATA1(", "1", "access(", "user(", "/bin/a:b",
                "tracepoint(", "a:b", "within_file(", "...", "comm(", "pid(", "arg(", "target(", "first", "function",
                "split", "merge",
            ]),
            0..60,
        )
    ) {
        survives(&words.join(" "));
    }

    #[test]
    fn no_damage_upsets_it(at in 0..EXAMPLE.len(), length in 0..40usize, new in "[{}();$\"'/*#a-z \n]{0,8}") {
        let mut text = EXAMPLE.as_bytes().to_vec();
        let end = (at + length).min(text.len());
        text.splice(at..end, new.bytes());
        survives(&String::from_utf8_lossy(&text));
    }
}
