package inflate

import "math/bits"

// The sizes of the tables: a look-up by this many bits, and then, for longer codes, one in a table behind it. The totals are those that complete
// codes of at most 15 bits can need, rounded up to a power of two.
const (
	litBits  = 11
	litSize  = 4096
	distBits = 8
	distSize = 512
	maxBits  = 15
)

type (
	litTable  [litSize]uint32
	distTable [distSize]uint32
)

// An entry's low 6 bits count the bits that it takes from the input.
//
//	literal         isLiteral | byte<<16 | code length
//	length, distance  base<<16 | code length<<8 | code length + extra bits
//	longer code     isSpecial | isSub | start of its table<<16 | bits of its table<<8
//	end of block    isSpecial | isEnd | code length
//	no such code    isSpecial
const (
	isLiteral = 1 << 31
	isSpecial = 1 << 15
	isSub     = 1 << 14
	isEnd     = 1 << 13
)

// Bases and extra bits of RFC 1951, 3.2.5.
var (
	lengthBase  = [...]uint16{3, 4, 5, 6, 7, 8, 9, 10, 11, 13, 15, 17, 19, 23, 27, 31, 35, 43, 51, 59, 67, 83, 99, 115, 131, 163, 195, 227, 258}
	lengthExtra = [...]uint8{0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 4, 4, 4, 4, 5, 5, 5, 5, 0}
	distBase    = [...]uint16{1, 2, 3, 4, 5, 7, 9, 13, 17, 25, 33, 49, 65, 97, 129, 193, 257, 385, 513, 769, 1025, 1537, 2049, 3073, 4097, 6145, 8193, 12289, 16385, 24577}
	distExtra   = [...]uint8{0, 0, 0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7, 8, 8, 9, 9, 10, 10, 11, 11, 12, 12, 13, 13}
	lengthOrder = [...]uint8{16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15}
)

// litEntry returns the entry of a literal/length symbol without its code length.
func litEntry(symbol int) uint32 {
	switch {
	case symbol < 256:
		return isLiteral | uint32(symbol)<<16
	case symbol == 256:
		return isSpecial | isEnd
	case symbol-257 < len(lengthBase):
		return uint32(lengthBase[symbol-257])<<16 | uint32(lengthExtra[symbol-257])
	}
	return isSpecial
}

func distEntry(symbol int) uint32 {
	if symbol < len(distBase) {
		return uint32(distBase[symbol])<<16 | uint32(distExtra[symbol])
	}
	return isSpecial
}

// plainEntry carries the symbol itself, for the code of the code lengths.
func plainEntry(symbol int) uint32 { return uint32(symbol) << 16 }

// withLength adds a code length to an entry: to its total, and, where extra bits follow, in the place that says where they begin.
func withLength(entry uint32, length uint) uint32 {
	if entry&(isLiteral|isSpecial) != 0 {
		return entry | uint32(length)
	}
	return entry + uint32(length) | uint32(length)<<8
}

// build fills table from code lengths, whose look-up takes first bits, and reports whether they are a code: complete, a single code of one bit,
// or empty, as compress/flate has it too.
func build(table []uint32, first uint, lengths []uint8, entry func(int) uint32) bool {
	var count [maxBits + 1]int
	longest := uint(0)
	for _, n := range lengths {
		count[n]++
		longest = max(longest, uint(n))
	}
	for i := range table {
		table[i] = isSpecial
	}
	if longest == 0 {
		return true
	}
	var next [maxBits + 2]int
	code := 0
	for n := uint(1); n <= longest; n++ {
		code <<= 1
		next[n] = code
		code += count[n]
	}
	if code != 1<<longest && !(code == 1 && longest == 1) {
		return false
	}
	var codes [288]uint16
	var deepest [1 << litBits]uint8 // the longest code behind each slot of the first look-up
	for symbol, length := range lengths {
		if length == 0 {
			continue
		}
		n := uint(length)
		codes[symbol] = bits.Reverse16(uint16(next[n])) >> (16 - n)
		next[n]++
		slot := &deepest[codes[symbol]&(1<<first-1)]
		*slot = max(*slot, length)
	}
	free := 1 << first // where the next table for longer codes begins
	for symbol, length := range lengths {
		n, code := uint(length), int(codes[symbol])
		switch {
		case n == 0:
		case n <= first:
			for i := code; i < 1<<first; i += 1 << n {
				table[i] = withLength(entry(symbol), n)
			}
		default:
			slot := code & (1<<first - 1)
			size := uint(deepest[slot]) - first
			if table[slot]&isSub == 0 {
				if free+1<<size > len(table) {
					return false
				}
				table[slot] = isSpecial | isSub | uint32(free)<<16 | uint32(size)<<8
				free += 1 << size
			}
			sub := table[table[slot]>>16:][:1<<size]
			for i := code >> first; i < len(sub); i += 1 << (n - first) {
				sub[i] = withLength(entry(symbol), n-first)
			}
		}
	}
	return true
}

// fixedTables sets the tables of a block with fixed codes.
func (r *Reader) fixedTables() {
	var lengths [288]uint8
	for i := range lengths {
		switch {
		case i < 144, i >= 280:
			lengths[i] = 8
		case i < 256:
			lengths[i] = 9
		default:
			lengths[i] = 7
		}
	}
	build(r.lit[:], litBits, lengths[:], litEntry)
	var dist [32]uint8
	for i := range dist {
		dist[i] = 5
	}
	build(r.dist[:], distBits, dist[:], distEntry)
}

// dynamicTables reads the tables of a block with codes of its own, and reports whether they are sound.
func (r *Reader) dynamicTables() bool {
	lits, dists, codes := int(r.take(5))+257, int(r.take(5))+1, int(r.take(4))+4
	if lits > 286 || dists > 30 {
		return false
	}
	var codeLengths [19]uint8
	for i := range codes {
		codeLengths[lengthOrder[i]] = uint8(r.take(3))
	}
	const first = 7 // the longest code of a code length
	var table [1 << first]uint32
	if !build(table[:], first, codeLengths[:], plainEntry) {
		return false
	}
	var lengths [286 + 30]uint8
	for i := 0; i < lits+dists; {
		if r.nbits < first {
			r.need()
		}
		e := table[r.bits&(1<<first-1)]
		if e&isSpecial != 0 {
			return false
		}
		r.take(uint(e & 63))
		symbol := uint8(e >> 16)
		if symbol < 16 {
			lengths[i] = symbol
			i++
			continue
		}
		value, repeat := uint8(0), 0
		switch symbol {
		case 16:
			if i == 0 {
				return false
			}
			value, repeat = lengths[i-1], 3+int(r.take(2))
		case 17:
			repeat = 3 + int(r.take(3))
		default:
			repeat = 11 + int(r.take(7))
		}
		if i+repeat > lits+dists {
			return false
		}
		for range repeat {
			lengths[i] = value
			i++
		}
	}
	if lengths[256] == 0 {
		return false // the block could not end
	}
	return build(r.lit[:], litBits, lengths[:lits], litEntry) && build(r.dist[:], distBits, lengths[lits:lits+dists], distEntry)
}
