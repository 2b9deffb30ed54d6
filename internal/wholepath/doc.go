// Package wholepath tests the whole path over real processes: the built binary, the real claude CLI, a scripted model, and clients over a WebSocket
// and over stdio. It has no code of its own.
package wholepath
