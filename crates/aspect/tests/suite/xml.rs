//! The XML form: the figures of the paper on XenLASY as printed, and what people write that is no XML.

use crate::common::{meaning, read, shown};
use proptest::prelude::*;
use xweave_aspect::syntax::{Act, ClauseKind, Exact, Pointcut, When};
use xweave_aspect::{Aspects, Diagnostic, Severity, Source, format, parse};

const FIGURE_2: &str = include_str!("../figures/figure-2.xml");
const FIGURE_3: &str = include_str!("../figures/figure-3.xml");
const FIGURE_4: &str = include_str!("../figures/figure-4.xml");

fn files(texts: &[&str]) -> Result<Aspects, Vec<Diagnostic>> {
    let source =
        |(nth, text): (usize, &&str)| Source { name: format!("{nth}.xml"), text: (*text).to_owned() };
    parse(texts.iter().enumerate().map(source).collect())
}

fn mistakes(text: &str) -> Vec<String> {
    shown(&files(&[text]).err().unwrap_or_default())
}

#[test]
fn the_figures_are_accepted_as_printed() {
    let aspects =
        files(&[FIGURE_2, FIGURE_3, FIGURE_4]).unwrap_or_else(|errors| panic!("{:?}", shown(&errors)));
    let [flow] = &aspects.xflows[..] else { panic!() };
    let names: Vec<_> = flow.clauses.iter().map(|clause| clause.name.as_str()).collect();
    let expected =
        ["netflow.start1", "netflow.transit1", "netflow.quit1", "netflow.transit2", "netflow.transit3"];
    assert_eq!(names, expected);
    assert!(matches!(flow.clauses[0].act, Act::SelectTarget));
    let Act::Xin { copy: false, carrier, from, key } = &flow.clauses[3].act else { panic!() };
    assert_eq!(
        (carrier.text.as_str(), from.to_string(), key.to_string()),
        ("netin", "skb".into(), "tx".into())
    );
    let Act::Xout { key, to, .. } = &flow.clauses[4].act else { panic!() };
    assert_eq!((key.to_string(), to.to_string()), ("tx".into(), "skb".into()));
    assert_eq!(aspects.advice[0].body.span.line, 7);

    let place = |warning: &Diagnostic| (warning.file.clone(), warning.line, warning.column);
    assert!(aspects.warnings.iter().all(|warning| warning.severity == Severity::Warning));
    let slip = aspects.warnings.iter().find(|warning| warning.message.contains("closes nothing"));
    assert_eq!(slip.map(place), Some(("2.xml".into(), 8, 3)));
    let field = aspects.warnings.iter().find(|warning| warning.message.contains("<field> has no effect"));
    assert_eq!(field.map(place), Some(("2.xml".into(), 7, 3)));
    // The figure shows clauses without the flow that they belong to.
    let strays =
        aspects.warnings.iter().filter(|warning| warning.message.contains("taken as one of `netflow`"));
    assert_eq!(strays.map(|warning| warning.line).collect::<Vec<_>>(), [1, 10]);
}

#[test]
fn the_figures_mean_what_they_would_in_the_native_form() {
    let native = "access(sk_buff.%) AND target(skb) AND xflow(netflow, skb, id) {\n\
                  long long tsc; DO_RDTSC(tsc); STORE_DATA3($pc$, tsc, id); }\n\
                  xflow netflow {\n\
                  start access(sk_buff.data) AND within_function(alloc_skb_from_cache);\n\
                  transit access(sk_buff.head) AND within_function(skb_clone) move skb to n;\n\
                  quit access(sk_buff.%) AND within_function(__kfree_skb);\n}";
    let xml =
        read(&format!("<aspect>{FIGURE_2}{FIGURE_3}</aspect>")).unwrap_or_else(|e| panic!("{:?}", shown(&e)));
    assert_eq!(meaning(&xml), meaning(&read(native).unwrap_or_else(|e| panic!("{:?}", shown(&e)))));
}

#[test]
fn clauses_without_a_flow_need_one() {
    let message = "this <transit> is in no <xflow>, and which flow it belongs to is not clear";
    assert_eq!(mistakes(FIGURE_4), [format!("1:1: {message}"), format!("10:1: {message}")]);
    let two = format!("{FIGURE_3}{}{FIGURE_4}", FIGURE_3.replace("netflow", "other"));
    assert_eq!(mistakes(&two).len(), 2);
}

#[test]
fn code_need_not_be_escaped_and_may_be() {
    let advice = |body: &str| {
        let text = format!(
            "<advice>\n <pointcut>execution(a) && !if(b<c)</pointcut>\n <before> {body}\n</before></advice>"
        );
        let aspects = files(&[&text]).unwrap_or_else(|errors| panic!("{text}: {:?}", shown(&errors)));
        (aspects.advice[0].body.to_string(), meaning(&aspects))
    };
    let plain = "if (a && tx->flags < 4 && b << 2) { f(\"</x>\", '&'); } // ü";
    assert_eq!(advice(plain).0, plain);
    let escaped = "if (a &amp;&amp; tx-&gt;flags &lt; 4 &#38;& b &#x3c;&lt; 2) { f(\"&lt;/x>\", '&'); } // ü";
    assert_eq!(advice(escaped), advice(plain));
    assert_eq!(advice(&format!("<![CDATA[{plain}]]>")), advice(plain));
    // A comment of XML in code is none of its code.
    assert_eq!(advice("f(<!-- } -->);").0, "f(          );");
}

#[test]
fn attributes_are_expressions() {
    let text = "<?xml version=\"1.0\"?>\n<xflow name='f'>\n\
         <start exact=\"first\"><pointcut>access(a.b)</pointcut><select local_var=\"a->b\"/></start>\n\
         <transit><pointcut>execution(c)</pointcut><xin_copy name='r' from=\"a && b\" to='virtqueue_avail(vq)'>\
         <field name='x' offset='1' size='2'/></xin_copy></transit>\n\
         <transit><pointcut>execution(c)</pointcut><xout_move name='r' from='k(&quot;&quot;)' to='d'/></transit>\n\
         <transit><pointcut>execution(c)</pointcut><split from='d' to='e'/></transit>\n\
         <transit><pointcut>execution(c)</pointcut><merge from='d' to='(to)'/></transit>\n\
         <quit><pointcut>execution(c)</pointcut><action>if (a < b) flow_quit(f, c);</action></quit></xflow>\n\
         <advice name='n' exact='function'><pointcut>access(a.b)</pointcut><after/></advice>";
    let aspects = files(&[text]).unwrap_or_else(|errors| panic!("{:?}", shown(&errors)));
    let [start, xin, xout, split, merge, quit] = &aspects.xflows[0].clauses[..] else { panic!() };
    assert_eq!((start.exact, start.act.codes()[0].to_string()), (Exact::First, "a->b".into()));
    let Act::Xin { copy: true, from, key, .. } = &xin.act else { panic!() };
    assert_eq!((from.to_string(), key.to_string()), ("a && b".into(), "virtqueue_avail(vq)".into()));
    assert_eq!((from.span.line, from.span.column), (4, 68));
    assert_eq!(xout.act.codes()[0].to_string(), "k(\"\")");
    assert!(matches!((&split.act, &merge.act), (Act::Split { .. }, Act::Merge { .. })));
    assert_eq!((quit.kind, quit.act.codes()[0].names().last()), (ClauseKind::Quit, Some("c")));
    let advice = &aspects.advice[0];
    assert_eq!((advice.name.text.as_str(), advice.named, advice.exact), ("n", true, Exact::Function));
    assert!(advice.when == When::After && advice.body.is_empty());
    assert!(matches!(advice.pointcut, Pointcut::Access(_)));
    assert_eq!(aspects.warnings.len(), 1);
}

#[test]
fn mistakes_are_told_where_they_are() {
    let advice = |pointcut: &str, body: &str| {
        format!("<advice>\n<pointcut>{pointcut}</pointcut>\n<before>{body}</before></advice>")
    };
    for (text, expected) in [
        (advice("acess(a.b)", ""), "2:11: expected a pointcut, found `acess`"),
        (advice("\n  execution(a) &amp;&amp; b", ""), "3:27: expected a pointcut, found `b`"),
        (advice("execution(a) execution(b)", ""), "2:24: expected the end of this text, found `execution`"),
        (advice("", ""), "2:11: expected a pointcut, found the end"),
        (
            advice("execution(a)", "&lt; STORE_DATA9(1);"),
            "3:14: there is no `STORE_DATA9`: there are STORE_DATA1 to STORE_DATA7",
        ),
        (advice("execution(a)", "<![CDATA[ }]]>"), "3:19: this `}` closes nothing"),
        ("<advice>".to_owned(), "1:9: this is not well-formed XML: <advice> is never closed"),
        ("<advice><pointcut>a".to_owned(), "1:9: this element is never closed"),
        (
            "<advice></advise>".to_owned(),
            "1:9: this is not well-formed XML: expected 'advice' tag, not 'advise'",
        ),
        ("\n<advice a=b/>".to_owned(), "2:11: this is not well-formed XML: expected a quote not 'b'"),
        (
            "<xin_move/> </xen_move>".to_owned(),
            "1:13: this is not well-formed XML: expected 'aspects' tag, not 'xen_move'",
        ),
        ("<advise/>".to_owned(), "1:1: <advise> is not known here"),
        ("<advice/>".to_owned(), "1:1: <advice> has no <pointcut>"),
        ("<advice x='1'/>".to_owned(), "1:9: <advice> has no attribute `x`"),
        ("<advice exact='once'/>".to_owned(), "1:16: expected `every`, `first` or `function`, found `once`"),
        ("<advice name='NOT'/>".to_owned(), "1:15: expected the advice's name, found `NOT`"),
        ("<xflow/>".to_owned(), "1:1: <xflow> lacks the attribute `name`"),
        ("<aspect>what</aspect>".to_owned(), "1:9: there is text where only elements can be"),
        (
            "<transit><pointcut>execution(a)</pointcut><move from='a' to='to'/></transit>".to_owned(),
            "1:62: an expression is missing here",
        ),
        (
            "<transit><pointcut>execution(a)</pointcut><move from='a to b' to='c'/></transit>".to_owned(),
            "1:57: expected the end of this text, found `to`",
        ),
        (
            "<transit><pointcut>execution(a)</pointcut><copy from='a' to='b'/><move/></transit>".to_owned(),
            "1:66: <transit> can have only one of <move>, <copy>, <split>, <merge>, <xin_move>, <xin_copy>, \
             <xout_move>, <xout_copy>, <action>",
        ),
        (
            "<start><pointcut>access(a.b)</pointcut><field/></start>".to_owned(),
            "1:1: <start> has no <select>, <action>",
        ),
        (
            "<start><pointcut>access(a.b)</pointcut><split/></start>".to_owned(),
            "1:40: <split> is not known here",
        ),
    ] {
        assert_eq!(mistakes(&text), [expected], "{text}");
    }
}

#[test]
fn comments_come_along() {
    let text = "<!-- File\n  two -->\n<aspect><!-- a --><advice name='a'><pointcut>execution(a)</pointcut><before>b(); // c\n</before></advice>\
                <xflow name='f'><!-- s --><start><pointcut>execution(a)</pointcut><select local_var='b'/></start>\
                <!-- e --></xflow></aspect><!-- end -->";
    let native = |text: &str| {
        format(Source { name: "x.xml".into(), text: text.into() }).map(|formatted| formatted.text)
    };
    assert_eq!(
        native(text).unwrap_or_else(|errors| panic!("{:?}", shown(&errors))),
        "# File\n# two\n# a\nadvice a execution(a) {\n    b(); // c\n}\n\nxflow f {\n    # s\n    \
         start   execution(a) select b;\n    # e\n}\n# end\n"
    );
    for lost in [
        "<advice><!-- a --><pointcut>execution(a)</pointcut><before/></advice>",
        "<advice><pointcut>execution(a) <!-- b --></pointcut><before/></advice>",
        "<advice><pointcut>execution(a) # b\n</pointcut><before/></advice>",
    ] {
        let errors = native(lost).err().unwrap_or_default();
        assert!(errors.len() == 1 && errors[0].message.contains("would be lost"), "{lost}");
    }
}

/// Whatever is read is the same in the native form.
fn survives(text: &str) {
    match read(text) {
        Ok(aspects) => {
            let shown = aspects.to_string();
            let again = read(&shown).unwrap_or_else(|errors| panic!("{text}\n{shown}\n{}", errors[0]));
            assert_eq!(meaning(&again), meaning(&aspects), "{text}\n{shown}");
        }
        Err(errors) => {
            let lines = text.split('\n').count();
            for error in errors {
                assert!((1..=lines + 1).contains(&usize::try_from(error.line).unwrap_or(0)), "{error}");
            }
        }
    }
}

#[test]
fn deep_nesting_does_no_harm() {
    survives(&"<aspect>".repeat(100_000));
    let closed = "<advice>".repeat(20_000) + &"</advice>".repeat(20_000);
    survives(&closed);
    survives(&format!("<{}", "a='b' ".repeat(10_000)));
}

proptest! {
    #[test]
    fn no_words_upset_it(
        words in prop::collection::vec(
            prop::sample::select(vec![
                "<advice>", "</advice>", "<pointcut>", "</pointcut>", "<before>", "</before>", "<xflow name='a'>",
                "</xflow>", "<start>", "</start>", "<transit>", "</transit>", "<move from='a' to='b'/>", "<field/>",
                "<xin_move name='c' from='a' to='b'/>", "</xen_move>", "<select local_var='x'/>", "<!--", "-->",
                "<![CDATA[", "]]>", "&amp;", "&", "<", ">", "execution(a)", "access(a.b)", "\n", "ü", "{", "}", "#",
                "<?xml", "?>", "<!DOCTYPE a>", "xmlns:a='b'", "<a:b/>", "&#10;", "//", "'", "\"", "to", "/>",
            ]),
            0..40,
        )
    ) {
        survives(&format!("<{}", words.join("")));
        survives(&format!("<aspect>{}</aspect>", words.join(" ")));
    }

    #[test]
    fn no_damage_upsets_it(at in 0..FIGURE_3.len(), length in 0..40usize, new in "[<>/&'\"a-z \n!?-]{0,8}") {
        for figure in [FIGURE_2, FIGURE_3, FIGURE_4] {
            let mut text = format!("{FIGURE_3}{figure}").into_bytes();
            let at = if figure == FIGURE_3 { at } else { FIGURE_3.len() + at % figure.len() };
            let end = (at + length).min(text.len());
            text.splice(at..end, new.bytes());
            survives(&String::from_utf8_lossy(&text));
        }
    }
}
