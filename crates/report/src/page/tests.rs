#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

use serde::Serialize;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::{
    DOCUMENT, PROGRAM, TITLE,
    bounded::{Budget, cut},
    escape, fill,
    written::written,
};

/// What may be a name, of a process or a file.
const HOSTILE: [&str; 16] = [
    "</script><script>alert(1)</script>",
    "</SCRIPT\t><img src=x onerror=alert(1)>",
    "<!--<script>",
    "--><svg/onload=alert(1)>",
    "]]>",
    "\"'`\\\\\"",
    "\\u003c/script\\u003e",
    "javascript:alert(1)",
    "\u{2028}\u{2029}",
    "\u{202e}drow\u{2066}",
    "\u{0}\u{1}\u{7f}\u{9b}31m\u{1b}]0;x\u{7}",
    "\u{e0041}\u{feff}",
    "&lt;&amp;&#x3c;",
    "__proto__",
    "{{constructor}}",
    "ü 名 🦀",
];

/// The document out of a page, as a browser has it: from its element to the first `</script`.
fn document(page: &str) -> Value {
    let (_, rest) = page.split_once(DOCUMENT).unwrap();
    let (text, _) = rest.split_once("</script").unwrap();
    serde_json::from_str(text).unwrap()
}

#[test]
fn hostile_names_are_text_and_mean_the_same() {
    let hostile = json!({ "names": HOSTILE, "keys": HOSTILE.map(|name| json!({ name: name })) });
    let text = written(&hostile);
    assert!(!text.contains(['<', '>', '&', '\u{2028}', '\u{2029}']), "{text}");
    assert_eq!(text, xweave_text::printable(&text), "nor does a terminal obey it");
    for title in HOSTILE {
        let page = fill(title, &text);
        assert_eq!(document(&page), hostile);
        let (head, _) = page.split_once(DOCUMENT).unwrap();
        let told = head.split_once("<title>").unwrap().1.split_once("</title>").unwrap().0;
        assert!(!told.contains(['<', '>', '"', '\'']) && told == escape(title), "{told}");
        assert_eq!(
            head.matches("<script").count(),
            PROGRAM.split_once(DOCUMENT).unwrap().0.matches("<script").count()
        );
    }
}

#[test]
fn numbers_that_a_browser_cannot_hold_are_strings() {
    let told: Value =
        serde_json::from_str(&written(&json!([1_u64 << 53, (1_u64 << 53) + 1, -(1_i64 << 60), 0.5])))
            .unwrap();
    assert_eq!(told, json!([1_u64 << 53, "9007199254740993", "-1152921504606846976", 0.5]));
}

#[test]
fn there_is_room_for_so_much_and_lists_are_cut_off_where_it_ends() {
    let of = |all: &[&'static str], most, bytes| json!(cut(all.to_vec(), most, bytes));
    let told = of(&["12345", "<<<<<", "1"], 3, 20);
    assert_eq!(told, json!({ "of": 3, "all": ["12345"] }), "an escaped sign takes six bytes");
    let names: Vec<String> = (0..1_000).map(|n| format!("name {n}")).collect();
    let told = cut(names.clone(), 10, 1 << 20);
    assert_eq!((told.of, told.all.len()), (1_000, 10));
    assert!(json!(cut(names, 1_000, 100)).to_string().len() < 130);
}

#[test]
fn room_is_that_of_the_page() {
    let things = [json!(HOSTILE), json!([u64::MAX, i64::MIN, 0.1, null, true]), json!({ "<": "\n\t\"" })];
    for thing in things {
        let length = written(&thing).len();
        assert!(Budget::of(length + 1).admit(&thing) && !Budget::of(length).admit(&thing), "{thing}");
    }
}

#[test]
fn of_what_there_is_no_room_for_no_more_is_serialised() {
    /// Counts its elements as they are taken.
    struct Long(std::cell::Cell<u32>);
    impl Serialize for Long {
        fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            serializer.collect_seq((0..1_000_000).inspect(|_| self.0.set(self.0.get() + 1)))
        }
    }
    let long = Long(std::cell::Cell::default());
    assert!(!Budget::of(1_000).admit(&long));
    assert!(long.0.get() < 1_000, "{} of its elements were taken", long.0.get());
}

#[test]
fn the_program_stands_alone_and_its_policy_is_of_what_is_in_it() {
    assert!(PROGRAM.contains(TITLE) && PROGRAM.matches(DOCUMENT).count() == 1);
    assert!(PROGRAM.len() < 250_000, "{} bytes", PROGRAM.len());
    assert_eq!(PROGRAM, xweave_text::lines(PROGRAM));
    let foreign = PROGRAM.replace("http://www.w3.org/2000/svg", "");
    assert!(!foreign.contains("://"), "nothing foreign is named");
    let policy =
        PROGRAM.split_once("Content-Security-Policy\" content=\"").unwrap().1.split_once('"').unwrap().0;
    assert!(policy.starts_with("default-src 'none'; ") && !policy.contains("unsafe"), "{policy}");
    for (element, source) in [("<script>", "script-src"), ("<style>", "style-src")] {
        let content = PROGRAM.split_once(element).unwrap().1.split_once("</").unwrap().0;
        let hash = base64(&Sha256::digest(content));
        assert!(policy.contains(&format!("{source} 'sha256-{hash}'")), "{policy}: {hash}");
    }
    for gate in ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "new Function", "eval("] {
        assert!(!PROGRAM.contains(gate), "{gate}");
    }
}

fn base64(bytes: &[u8]) -> String {
    const SIGNS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let group = |group: &[u8]| {
        let bits = (0..3).fold(0_usize, |bits, at| bits << 8 | usize::from(*group.get(at).unwrap_or(&0)));
        let sign = |at: usize| if at <= group.len() { SIGNS[bits >> (18 - 6 * at) & 63] } else { b'=' };
        (0..4).map(|at| char::from(sign(at))).collect::<String>()
    };
    bytes.chunks(3).map(group).collect()
}
