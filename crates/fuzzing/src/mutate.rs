//! Mutation of seeds: inputs that differ from valid ones in a few places. The same number makes the same input each time.

/// Integers at which sizes, offsets and signs overflow.
const INTERESTING: [u64; 16] = [
    0,
    1,
    4,
    0x7f,
    0x80,
    0xff,
    0x100,
    0x7fff,
    0x8000,
    0xffff,
    0x7fff_ffff,
    0x8000_0000,
    0xffff_ffff,
    0x7fff_ffff_ffff_ffff,
    0x8000_0000_0000_0000,
    u64::MAX,
];

/// Binary logarithm of the largest number of bytes that a change removes, repeats or copies.
const LONGEST_CHUNK_BITS: usize = 12;

/// Bytes of an input in which headers are.
const HEAD: usize = 256;

/// Random numbers: SplitMix64 (Steele, Lea and Flood: Fast Splittable Pseudorandom Number Generators, 2014).
struct Generator {
    state: u64,
    /// Bound of all positions: only the head of an input changes, or any byte.
    reach: usize,
}

impl Generator {
    fn new(seed: u64) -> Self {
        let mut generator = Self { state: seed, reach: usize::MAX };
        // Headers are short: chance alone would seldom change them in a long input.
        if generator.below(4) == 0 {
            generator.reach = HEAD;
        }
        generator
    }

    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.state ^ (self.state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Number less than `bound`; 0 if `bound` is 0.
    fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.next() % bound.max(1) as u64).expect("less than a usize")
    }

    /// One of some items. Panics if there are none.
    fn choose<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.below(items.len())]
    }

    /// Position in an input; 0 if the input is empty.
    fn position(&mut self, length: usize) -> usize {
        self.below(length.min(self.reach))
    }

    /// Range of an input, more often short than long. Empty if the input is.
    fn chunk(&mut self, length: usize) -> std::ops::Range<usize> {
        let from = self.position(length);
        let longest = 1 << self.below(LONGEST_CHUNK_BITS + 1);
        from..(from + 1 + self.below(longest)).min(length)
    }
}

/// Makes inputs of seeds and of the words of a dictionary.
pub struct Mutator<'a> {
    seeds: Vec<&'a [u8]>,
    words: &'a [Vec<u8>],
}

impl<'a> Mutator<'a> {
    /// Creates a mutator. Panics without a seed.
    pub fn new(seeds: Vec<&'a [u8]>, words: &'a [Vec<u8>]) -> Self {
        assert!(!seeds.is_empty(), "mutations need a seed");
        Self { seeds, words }
    }

    /// Index of the seed that a mutation changes: all seeds in turns.
    pub fn choose_seed(&self, number: u64) -> usize {
        usize::try_from(number % self.seeds.len() as u64).expect("less than a length")
    }

    /// Makes the input of this number: a seed with 1 to 8 changes.
    pub fn make_input(&self, number: u64) -> Vec<u8> {
        let mut input = self.seeds[self.choose_seed(number)].to_vec();
        let mut generator = Generator::new(number);
        for _ in 0..1 << generator.below(4) {
            self.change(&mut input, &mut generator);
        }
        input
    }

    fn change(&self, input: &mut Vec<u8>, generator: &mut Generator) {
        let at = generator.position(input.len());
        match generator.below(9) {
            0 | 1 => {
                if let Some(byte) = input.get_mut(at) {
                    *byte ^= 1 << generator.below(8);
                }
            }
            2 => {
                if let Some(byte) = input.get_mut(at) {
                    *byte = generator.next().to_le_bytes()[0];
                }
            }
            3 | 4 => {
                let integer = generator.choose(&INTERESTING).to_le_bytes();
                let width = (1 << generator.below(4)).min(input.len() - at);
                input[at..at + width].copy_from_slice(&integer[..width]);
            }
            5 => {
                let chunk = generator.chunk(input.len());
                // Truncation, or a chunk that is missing.
                let to = if generator.below(4) == 0 { input.len() } else { chunk.end };
                input.drain(chunk.start..to);
            }
            6 => {
                let chunk = input[generator.chunk(input.len())].to_vec();
                let times = 1 + generator.below(4);
                input.splice(at..at, chunk.repeat(times));
            }
            7 => {
                let seed = *generator.choose(&self.seeds);
                let chunk = &seed[generator.chunk(seed.len())];
                // Inserted, or in place of as many bytes.
                let to = if generator.below(2) == 0 { at } else { (at + chunk.len()).min(input.len()) };
                input.splice(at..to, chunk.iter().copied());
            }
            _ => {
                let integer = generator.choose(&INTERESTING).to_le_bytes();
                let width = 1 << generator.below(4);
                let word =
                    if self.words.is_empty() { &integer[..width] } else { generator.choose(self.words) };
                input.splice(at..at, word.iter().copied());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn makes_the_same_input_for_the_same_number() {
        let (seeds, words) = (vec![&b"first"[..], b"second seed"], vec![b"word".to_vec()]);
        let (one, other) = (Mutator::new(seeds.clone(), &words), Mutator::new(seeds, &words));
        assert!((0..500).all(|number| one.make_input(number) == other.make_input(number)));
        // SplitMix64 of the paper, with the seed 0.
        assert_eq!(Generator { state: 0, reach: 0 }.next(), 0xe220_a839_7b1d_cdaf);
    }

    #[test]
    fn makes_different_inputs() {
        let seed: Vec<u8> = (0..=255).collect();
        let mutator = Mutator::new(vec![&seed], &[]);
        let inputs: std::collections::HashSet<_> =
            (0..1000).map(|number| mutator.make_input(number)).collect();
        assert!(inputs.len() > 950, "{}", inputs.len());
        assert!(inputs.iter().any(|input| input.len() < 128));
        assert!(inputs.iter().any(|input| input.len() > 512));
    }

    #[test]
    fn splices_words_and_other_seeds() {
        let (words, other) = (vec![b"<word>".to_vec()], [0xee; 64]);
        let mutator = Mutator::new(vec![b"one", &other], &words);
        let inputs: Vec<_> = (0..1000).map(|number| mutator.make_input(2 * number)).collect();
        assert!(inputs.iter().any(|input| input.windows(6).any(|window| window == b"<word>")));
        assert!(inputs.iter().any(|input| input.starts_with(b"o") && input.contains(&0xee)));
    }

    #[test]
    fn mutates_empty_seeds() {
        let mutator = Mutator::new(vec![b""], &[]);
        assert!((0..1000).any(|number| !mutator.make_input(number).is_empty()));
    }
}
