"""What the parser must do; the compound forms are the change that is asked for."""

import unittest

from durations import parse_seconds


class ParseSeconds(unittest.TestCase):
    def test_a_single_unit(self):
        self.assertEqual(parse_seconds("90s"), 90)
        self.assertEqual(parse_seconds("2h"), 7200)

    def test_compound_units_add_up(self):
        self.assertEqual(parse_seconds("1h30m"), 5400)
        self.assertEqual(parse_seconds("1d2h3m4s"), 93784)

    def test_units_must_fall_and_not_repeat(self):
        for text in ("30m1h", "1h1h", "5m5m"):
            with self.subTest(text), self.assertRaises(ValueError):
                parse_seconds(text)

    def test_nothing_else_is_a_duration(self):
        for text in ("", "h", "10", "-5m", "1.5h", "1h 30m", "1w", "\u0661h"):
            with self.subTest(text), self.assertRaises(ValueError):
                parse_seconds(text)


if __name__ == "__main__":
    unittest.main()
