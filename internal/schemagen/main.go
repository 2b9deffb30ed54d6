// Command schemagen writes the JSON Schema of the wire and the TypeScript types made from it into docs/schema. It reads the Go types by
// reflection, and their comments and vocabularies from the source of package protocol, so that there is no second list to keep.
//
// Run it by `go generate ./docs/schema`; a test fails while the files are older than the types.
package main

import (
	"flag"
	"log"
	"os"
	"path/filepath"
)

func main() {
	log.SetFlags(0)
	root := flag.String("root", ".", "the repository's root")
	flag.Parse()
	files, err := generate(*root)
	if err != nil {
		log.Fatal(err)
	}
	for name, data := range files {
		if err := os.WriteFile(filepath.Join(*root, "docs", "schema", name), data, 0o644); err != nil {
			log.Fatal(err)
		}
	}
}

// generate returns the files of docs/schema by name.
func generate(root string) (map[string][]byte, error) {
	s, err := build(root)
	if err != nil {
		return nil, err
	}
	raw, err := s.encode()
	if err != nil {
		return nil, err
	}
	return map[string][]byte{"agent-server.schema.json": raw, "agent-server.d.ts": typescript(s)}, nil
}

func build(root string) (*schema, error) {
	src, err := parseSource(filepath.Join(root, "protocol"), filepath.Join(root, "protocol", "conversation"), filepath.Join(root, "internal", "schemagen"))
	if err != nil {
		return nil, err
	}
	return buildSchema(src)
}
