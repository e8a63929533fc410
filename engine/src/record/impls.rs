//! What is a record: tuples, slices, references, rows that were read, and bare values.

use super::{Origin, Record, Shape};
use crate::error::Result;
use crate::row::{Row, RowRef};
use crate::value::AsValue;
use encoded_key::{Date, Decimal, Timestamp, Value};
use std::borrow::Cow;

macro_rules! tuple {
    ($columns:literal: $($T:ident $index:tt)+) => {
        impl<$($T: AsValue),+> Record for ($($T,)+) {
            #[inline]
            fn columns(&self) -> usize {
                $columns
            }

            #[inline]
            fn value(&self, index: usize) -> Result<Value<'_>> {
                match index {
                    $($index => Ok(self.$index.as_value()),)+
                    _ => panic!("column {index} of a record of {}", $columns),
                }
            }
        }
    };
}

tuple!(1: A 0);
tuple!(2: A 0 B 1);
tuple!(3: A 0 B 1 C 2);
tuple!(4: A 0 B 1 C 2 D 3);
tuple!(5: A 0 B 1 C 2 D 3 E 4);
tuple!(6: A 0 B 1 C 2 D 3 E 4 F 5);
tuple!(7: A 0 B 1 C 2 D 3 E 4 F 5 G 6);
tuple!(8: A 0 B 1 C 2 D 3 E 4 F 5 G 6 H 7);
tuple!(9: A 0 B 1 C 2 D 3 E 4 F 5 G 6 H 7 I 8);
tuple!(10: A 0 B 1 C 2 D 3 E 4 F 5 G 6 H 7 I 8 J 9);
tuple!(11: A 0 B 1 C 2 D 3 E 4 F 5 G 6 H 7 I 8 J 9 K 10);
tuple!(12: A 0 B 1 C 2 D 3 E 4 F 5 G 6 H 7 I 8 J 9 K 10 L 11);
tuple!(13: A 0 B 1 C 2 D 3 E 4 F 5 G 6 H 7 I 8 J 9 K 10 L 11 M 12);
tuple!(14: A 0 B 1 C 2 D 3 E 4 F 5 G 6 H 7 I 8 J 9 K 10 L 11 M 12 N 13);
tuple!(15: A 0 B 1 C 2 D 3 E 4 F 5 G 6 H 7 I 8 J 9 K 10 L 11 M 12 N 13 O 14);
tuple!(16: A 0 B 1 C 2 D 3 E 4 F 5 G 6 H 7 I 8 J 9 K 10 L 11 M 12 N 13 O 14 P 15);
tuple!(17: A 0 B 1 C 2 D 3 E 4 F 5 G 6 H 7 I 8 J 9 K 10 L 11 M 12 N 13 O 14 P 15 Q 16);
tuple!(18: A 0 B 1 C 2 D 3 E 4 F 5 G 6 H 7 I 8 J 9 K 10 L 11 M 12 N 13 O 14 P 15 Q 16 R 17);
tuple!(19: A 0 B 1 C 2 D 3 E 4 F 5 G 6 H 7 I 8 J 9 K 10 L 11 M 12 N 13 O 14 P 15 Q 16 R 17 S 18);
tuple!(20: A 0 B 1 C 2 D 3 E 4 F 5 G 6 H 7 I 8 J 9 K 10 L 11 M 12 N 13 O 14 P 15 Q 16 R 17 S 18 T 19);
tuple!(21: A 0 B 1 C 2 D 3 E 4 F 5 G 6 H 7 I 8 J 9 K 10 L 11 M 12 N 13 O 14 P 15 Q 16 R 17 S 18 T 19 U 20);
tuple!(22: A 0 B 1 C 2 D 3 E 4 F 5 G 6 H 7 I 8 J 9 K 10 L 11 M 12 N 13 O 14 P 15 Q 16 R 17 S 18 T 19 U 20 V 21);
tuple!(23: A 0 B 1 C 2 D 3 E 4 F 5 G 6 H 7 I 8 J 9 K 10 L 11 M 12 N 13 O 14 P 15 Q 16 R 17 S 18 T 19 U 20 V 21
    W 22);
tuple!(24: A 0 B 1 C 2 D 3 E 4 F 5 G 6 H 7 I 8 J 9 K 10 L 11 M 12 N 13 O 14 P 15 Q 16 R 17 S 18 T 19 U 20 V 21
    W 22 X 23);

/// No columns: the prefix of every key.
impl Record for () {
    #[inline]
    fn columns(&self) -> usize {
        0
    }

    #[inline]
    fn value(&self, index: usize) -> Result<Value<'_>> {
        panic!("column {index} of a record of none")
    }
}

impl<R: Record + ?Sized> Record for &R {
    #[inline]
    fn columns(&self) -> usize {
        (**self).columns()
    }

    #[inline]
    fn value(&self, index: usize) -> Result<Value<'_>> {
        (**self).value(index)
    }

    #[inline]
    fn shape(&self) -> Option<&'static Shape> {
        (**self).shape()
    }

    #[inline]
    fn origin(&self) -> Option<Origin<'_>> {
        (**self).origin()
    }
}

impl Record for [Value<'_>] {
    fn columns(&self) -> usize {
        self.len()
    }

    fn value(&self, index: usize) -> Result<Value<'_>> {
        Ok(self[index])
    }
}

impl<const N: usize> Record for [Value<'_>; N] {
    fn columns(&self) -> usize {
        N
    }

    fn value(&self, index: usize) -> Result<Value<'_>> {
        Ok(self[index])
    }
}

impl Record for Vec<Value<'_>> {
    fn columns(&self) -> usize {
        self.len()
    }

    fn value(&self, index: usize) -> Result<Value<'_>> {
        Ok(self[index])
    }
}

impl Record for Row {
    fn columns(&self) -> usize {
        self.len()
    }

    fn value(&self, index: usize) -> Result<Value<'_>> {
        self.as_ref().value(index)
    }

    fn origin(&self) -> Option<Origin<'_>> {
        let (schema, projection) = self.as_ref().made_of();
        Some(Origin::projected(schema, projection))
    }
}

impl Record for RowRef<'_> {
    fn columns(&self) -> usize {
        self.len()
    }

    fn value(&self, index: usize) -> Result<Value<'_>> {
        RowRef::value(self, index)
    }

    fn origin(&self) -> Option<Origin<'_>> {
        let (schema, projection) = self.made_of();
        Some(Origin::projected(schema, projection))
    }
}

macro_rules! single {
    ($([$($parameters:tt)*] $value:ty),+ $(,)?) => {$(
        impl<$($parameters)*> Record for $value {
            #[inline]
            fn columns(&self) -> usize {
                1
            }

            #[inline]
            fn value(&self, index: usize) -> Result<Value<'_>> {
                assert_eq!(index, 0, "column {index} of a record of 1");
                Ok(self.as_value())
            }
        }
    )+};
}

single! {
    [] bool, [] i8, [] i16, [] i32, [] i64, [] u8, [] u16, [] u32, [] u64, [] f32, [] f64,
    [] Decimal, [] Date, [] Timestamp, [] str, [] String, [] [u8], [] Vec<u8>, [const N: usize] [u8; N],
    [] Cow<'_, str>, [] Cow<'_, [u8]>,
}
