//! Shares with a fixed precision.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A share from 0 to 1 in ten-thousandths, rounded half to even, so that every machine writes the same
/// bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ratio(u16);

impl Ratio {
    const ONE: u16 = 10_000;

    /// All of it.
    pub const WHOLE: Self = Self(Self::ONE);

    /// `part` / `whole`; `None` if `whole` is 0. Capped at 1.
    pub fn of(part: u64, whole: u64) -> Option<Self> {
        if whole == 0 {
            return None;
        }
        let (part, whole) = (u128::from(part.min(whole)) * u128::from(Self::ONE), u128::from(whole));
        let (floor, rest) = (part / whole, part % whole);
        let up = match (2 * rest).cmp(&whole) {
            std::cmp::Ordering::Less => 0,
            std::cmp::Ordering::Equal => floor % 2,
            std::cmp::Ordering::Greater => 1,
        };
        u16::try_from(floor + up).ok().map(Self)
    }

    pub fn as_f64(self) -> f64 {
        f64::from(self.0) / f64::from(Self::ONE)
    }

    pub fn ten_thousandths(self) -> u16 {
        self.0
    }
}

impl Serialize for Ratio {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64(self.as_f64())
    }
}

impl<'de> Deserialize<'de> for Ratio {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let number = f64::deserialize(deserializer)?;
        let wrong = || serde::de::Error::custom("expected a number from 0 to 1 with at most 4 decimals");
        if !(0.0..=1.0).contains(&number) {
            return Err(wrong());
        }
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "from 0 to 10000")]
        let ratio = Self((number * f64::from(Self::ONE)).round() as u16);
        // A number with more decimals was not written by this program.
        if ratio.as_f64().to_bits() == number.to_bits() { Ok(ratio) } else { Err(wrong()) }
    }
}

/// Percent with one decimal.
impl fmt::Display for Ratio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.1} %", f64::from(self.0) / 100.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_rounded_half_to_even() {
        for (part, whole, expected) in [
            (0, 1, 0),
            (1, 1, 10_000),
            (1, 3, 3333),
            (2, 3, 6667),
            // 0.00005 and 0.00015: both round to the even neighbor.
            (1, 20_000, 0),
            (3, 20_000, 2),
            (5, 20_000, 2),
            (7, 20_000, 4),
            (9, 4, 10_000),
            (u64::MAX - 1, u64::MAX, 10_000),
        ] {
            assert_eq!(Ratio::of(part, whole).unwrap().ten_thousandths(), expected, "{part} of {whole}");
        }
        assert_eq!(Ratio::of(0, 0), None);
    }

    #[test]
    fn every_ratio_survives_json() {
        for n in 0..=10_000_u64 {
            let ratio = Ratio::of(n, 10_000).unwrap();
            let json = serde_json::to_string(&ratio).unwrap();
            assert!(json.len() <= 6, "{json}");
            assert_eq!(serde_json::from_str::<Ratio>(&json).unwrap(), ratio);
        }
        for bad in ["1.1", "-0.1", "0.33333", "-0.0", "\"1\"", "null"] {
            assert!(serde_json::from_str::<Ratio>(bad).is_err(), "{bad}");
        }
    }
}
