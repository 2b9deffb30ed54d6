// Package schema holds the JSON Schema of the wire (draft 2020-12) and the TypeScript types made from it.
package schema

import _ "embed"

//go:generate go run agentserver/internal/schemagen -root ../..

// JSON is the schema: what a client may send and what the server sends, with every type under $defs. It must not be changed.
//
//go:embed agent-server.schema.json
var JSON []byte

// TypeScript is the same as TypeScript types. It must not be changed.
//
//go:embed agent-server.d.ts
var TypeScript []byte
