//! Whose a file is, as index files and rowsets say it themselves.
//!
//! Owns the typed form of the message `Owner` of `proto/manifest.proto`. Only a repair reads it: while there is a
//! manifest, that says what belongs to whom.

use codec::{TableId, TabletId};
use prost::Message;

use super::edit::TableDesc;
use super::pb;
use crate::error::Error;

/// Whose a file is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Owner {
    pub(crate) table: TableId,
    pub(crate) name: String,
    /// The schema's own encoding.
    pub(crate) schema: Vec<u8>,
    pub(crate) tablet: TabletId,
}

impl Owner {
    /// The owner of the files of a table's tablet.
    pub(crate) fn of(table: &TableDesc, tablet: TabletId) -> Owner {
        Owner { table: table.id, name: table.name.clone(), schema: table.schema.clone(), tablet }
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        pb::Owner {
            table: self.table.0,
            name: self.name.clone(),
            schema: self.schema.clone(),
            tablet: self.tablet.0,
        }
        .encode_to_vec()
    }

    /// Reads what a file says.
    ///
    /// # Errors
    /// `Corruption` if it says nothing, or nothing that can be read.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Owner, Error> {
        if bytes.is_empty() {
            return Err(Error::corruption("the file does not say whose it is"));
        }
        let owner = pb::Owner::decode(bytes)
            .map_err(|error| Error::corruption(format!("whose the file is cannot be read: {error}")))?;
        Ok(Owner {
            table: TableId(owner.table),
            name: owner.name,
            schema: owner.schema,
            tablet: TabletId(owner.tablet),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_that_are_not_known_are_skipped() {
        let owner = Owner { table: TableId(7), name: "t".into(), schema: vec![8, 1], tablet: TabletId(8) };
        let with_more = [&owner.encode()[..], &[0x98, 0x06, 1]].concat();
        assert_eq!(Owner::decode(&with_more).expect("no more than that"), owner);
    }
}
