package transport

import (
	"crypto/rand"
	"encoding/binary"
)

// The frames of RFC 6455, section 5.2, as far as we write them ourselves: whole text frames, and pings without payload. Everything else of
// WebSocket (handshake, reading, pongs, closing) is the library's. It would make one system call a message; we put many into one.

const (
	opText     = 0x80 | 0x1
	opPing     = 0x80 | 0x9
	maskBit    = 0x80
	maxHeader  = 14
	keyBytes   = 4
	keysAtOnce = 64
)

// A framer writes frames for one direction of one connection. It is used by the goroutine whose turn it is to write.
type framer struct {
	client bool   // clients mask
	keys   []byte // random bytes that no frame has used yet
}

// text puts one text frame into b.
func (f *framer) text(b *batch, payload []byte) {
	var h [maxHeader]byte
	head := appendHeader(h[:0], opText, len(payload), f.client)
	if !f.client {
		b.append(head)
		b.append(payload)
		b.boundary()
		return
	}
	key := f.key()
	b.append(append(head, key[:]...))
	for pos := 0; pos < len(payload) && b.err == nil; {
		n := min(b.room(), len(payload)-pos)
		b.buf = appendMasked(b.buf, payload[pos:pos+n], key, pos)
		pos += n
	}
	b.boundary()
}

func (f *framer) key() (k [keyBytes]byte) {
	if len(f.keys) == 0 {
		f.keys = make([]byte, keyBytes*keysAtOnce)
		rand.Read(f.keys) // never fails (crypto/rand)
	}
	copy(k[:], f.keys)
	f.keys = f.keys[keyBytes:]
	return k
}

// pingFrame is one ping without payload.
func pingFrame(client bool) []byte {
	head := appendHeader(nil, opPing, 0, client)
	if client {
		head = append(head, 0, 0, 0, 0) // there is nothing to mask
	}
	return head
}

func appendHeader(b []byte, op byte, size int, masked bool) []byte {
	var m byte
	if masked {
		m = maskBit
	}
	switch {
	case size <= 125:
		return append(b, op, m|byte(size))
	case size <= 0xffff:
		return binary.BigEndian.AppendUint16(append(b, op, m|126), uint16(size))
	}
	return binary.BigEndian.AppendUint64(append(b, op, m|127), uint64(size))
}

// appendMasked appends p, which stands at offset pos of its payload, masked with key.
func appendMasked(dst, p []byte, key [keyBytes]byte, pos int) []byte {
	start := len(dst)
	dst = append(dst, p...)
	p = dst[start:]
	var k [8]byte // the key twice, turned to the offset
	for i := range k {
		k[i] = key[(pos+i)%keyBytes]
	}
	word := binary.LittleEndian.Uint64(k[:])
	for len(p) >= 8 {
		binary.LittleEndian.PutUint64(p, binary.LittleEndian.Uint64(p)^word)
		p = p[8:]
	}
	for i := range p {
		p[i] ^= k[i]
	}
	return dst
}
