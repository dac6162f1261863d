//! CRC-64/XZ (ECMA-182, reflected), eight bytes a step.

const POLYNOMIAL: u64 = 0xC96C_5795_D787_0F42;

const TABLES: [[u64; 256]; 8] = {
    let mut tables = [[0u64; 256]; 8];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = byte as u64;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 1 == 1 {
                (crc >> 1) ^ POLYNOMIAL
            } else {
                crc >> 1
            };
            bit += 1;
        }
        tables[0][byte] = crc;
        byte += 1;
    }
    let mut table = 1;
    while table < 8 {
        let mut byte = 0;
        while byte < 256 {
            let crc = tables[table - 1][byte];
            tables[table][byte] = tables[0][(crc & 0xFF) as usize] ^ (crc >> 8);
            byte += 1;
        }
        table += 1;
    }
    tables
};

/// A running checksum.
#[derive(Debug, Clone, Copy)]
pub(super) struct Checksum(u64);

impl Checksum {
    pub(super) fn new() -> Checksum {
        Checksum(u64::MAX)
    }

    pub(super) fn add(&mut self, bytes: &[u8]) {
        let mut crc = self.0;
        let (words, rest) = bytes.as_chunks::<8>();
        for word in words {
            let mixed = (crc ^ u64::from_le_bytes(*word)).to_le_bytes();
            crc = 0;
            for (byte, table) in mixed.iter().zip(TABLES.iter().rev()) {
                crc ^= table[*byte as usize];
            }
        }
        for byte in rest {
            crc = TABLES[0][((crc ^ u64::from(*byte)) & 0xFF) as usize] ^ (crc >> 8);
        }
        self.0 = crc;
    }

    pub(super) fn value(self) -> u64 {
        !self.0
    }
}

#[cfg(test)]
mod tests {
    use super::Checksum;

    #[test]
    fn the_published_check_value_however_the_bytes_come() {
        for cut in 0..=9 {
            let mut checksum = Checksum::new();
            checksum.add(&b"123456789"[..cut]);
            checksum.add(&b"123456789"[cut..]);
            assert_eq!(checksum.value(), 0x995D_C9BB_DF19_39FA, "cut at {cut}");
        }
    }
}
