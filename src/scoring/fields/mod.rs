//! The answers of a skill, field by field: five counts, and an entry of the leaderboard.
