//! Types as C spells them, without qualifiers.

/// What a type is to what is spelled within it: `*` in `int (*)[4]`.
pub(crate) struct Declarator(String);

/// What people call a number that GCC calls by all of its words.
pub(crate) fn usual(name: &str) -> &str {
    match name {
        "short int" => "short",
        "short unsigned int" => "unsigned short",
        "long int" => "long",
        "long unsigned int" => "unsigned long",
        "long long int" => "long long",
        "long long unsigned int" => "unsigned long long",
        "__int128 unsigned" => "unsigned __int128",
        name => name,
    }
}

/// No type that a person wrote is as long.
const LONGEST: usize = 1024;

impl Declarator {
    pub(crate) fn new() -> Self {
        Self(String::new())
    }

    /// What it is of is a pointer.
    pub(crate) fn pointer(&mut self) {
        self.0.insert(0, '*');
    }

    /// What it is of is an array; of 0, if the number is not known.
    pub(crate) fn array(&mut self, count: u32) {
        self.bracket();
        match count {
            0 => self.0.push_str("[]"),
            count => self.0.push_str(&format!("[{count}]")),
        }
    }

    /// What it is of is a function.
    pub(crate) fn function(&mut self, parameters: &[String]) {
        self.bracket();
        let parameters = if parameters.is_empty() { "void".to_owned() } else { parameters.join(", ") };
        self.0.push_str(&format!("({parameters})"));
    }

    /// Arrays and functions bind closer than pointers.
    fn bracket(&mut self) {
        if self.0.starts_with('*') {
            self.0 = format!("({})", self.0);
        }
    }

    /// The whole, made of what has a name of its own.
    pub(crate) fn of(self, name: &str) -> String {
        let space = if self.0.is_empty() || self.0.starts_with('[') { "" } else { " " };
        let mut spelled = format!("{name}{space}{}", self.0);
        if spelled.len() > LONGEST {
            let end = (0..=LONGEST).rev().find(|end| spelled.is_char_boundary(*end)).unwrap_or(0);
            spelled.truncate(end);
            spelled.push('…');
        }
        spelled
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_c_spells_them() {
        let spelled = |make: fn(&mut Declarator)| {
            let mut declarator = Declarator::new();
            make(&mut declarator);
            declarator.of("int")
        };
        assert_eq!(spelled(|_| ()), "int");
        assert_eq!(spelled(Declarator::pointer), "int *");
        assert_eq!(spelled(|d| d.array(4)), "int[4]");
        assert_eq!(spelled(|d| (d.pointer(), d.array(4)).1), "int (*)[4]");
        assert_eq!(spelled(|d| (d.array(4), d.pointer()).1), "int *[4]");
        assert_eq!(spelled(|d| (d.array(2), d.array(0)).1), "int[2][]");
        assert_eq!(spelled(|d| (d.pointer(), d.function(&[])).1), "int (*)(void)");
        let parameters = ["char *".to_owned(), "...".to_owned()];
        let mut declarator = Declarator::new();
        declarator.pointer();
        declarator.function(&parameters);
        assert_eq!(declarator.of("long"), "long (*)(char *, ...)");
        let mut long = Declarator::new();
        (0..10_000).for_each(|_| long.pointer());
        assert!(long.of("é").len() < 2 * LONGEST);
    }
}
