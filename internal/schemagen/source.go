package main

import (
	"go/ast"
	"go/doc/comment"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// A source is what only the Go source tells: comments and vocabularies.
// Types are named with their package, as in "conversation.Part".
type source struct {
	pkg    string                       // the one that is being read
	types  map[string]string            // type → comment
	fields map[string]map[string]string // type → Go field → comment
	tags   map[string][]string          // struct → Go fields with their tags, in order
	vocabs map[string]*vocabulary       // string type → its values
	consts map[string]string            // string constant of package protocol → its value
}

// A vocabulary is the list of constants of a string type. It is closed when the type's comment says so.
type vocabulary struct {
	values []string
	closed bool
}

func parseSource(dirs ...string) (*source, error) {
	s := &source{types: map[string]string{}, fields: map[string]map[string]string{}, tags: map[string][]string{}, vocabs: map[string]*vocabulary{},
		consts: map[string]string{}}
	for _, dir := range dirs {
		s.pkg = filepath.Base(dir) + "."
		names, err := filepath.Glob(filepath.Join(dir, "*.go"))
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			text, err := os.ReadFile(name)
			if err != nil {
				return nil, err
			}
			file, err := parser.ParseFile(token.NewFileSet(), name, text, parser.ParseComments)
			if err != nil {
				return nil, err
			}
			for _, d := range file.Decls {
				if g, ok := d.(*ast.GenDecl); ok {
					s.add(g)
				}
			}
		}
	}
	for name, v := range s.vocabs {
		v.closed = strings.Contains(s.types[name], "closed")
	}
	return s, nil
}

func (s *source) add(g *ast.GenDecl) {
	for _, spec := range g.Specs {
		switch spec := spec.(type) {
		case *ast.TypeSpec:
			s.addType(g, spec)
		case *ast.ValueSpec:
			s.addConst(spec)
		}
	}
}

func (s *source) addType(g *ast.GenDecl, spec *ast.TypeSpec) {
	doc := spec.Doc
	if doc == nil {
		doc = g.Doc
	}
	name := s.pkg + spec.Name.Name
	s.types[name] = plainText(doc.Text())
	st, ok := spec.Type.(*ast.StructType)
	if !ok {
		return
	}
	fields := map[string]string{}
	for _, f := range st.Fields.List {
		for _, n := range f.Names {
			fields[n.Name] = plainText(f.Doc.Text())
			if f.Tag != nil {
				s.tags[name] = append(s.tags[name], n.Name+" "+f.Tag.Value)
			}
		}
	}
	s.fields[name] = fields
}

func (s *source) addConst(spec *ast.ValueSpec) {
	if len(spec.Values) != 1 {
		return
	}
	lit, ok := spec.Values[0].(*ast.BasicLit)
	if !ok || lit.Kind != token.STRING {
		return
	}
	value, err := strconv.Unquote(lit.Value)
	if err != nil {
		return
	}
	if s.pkg == "protocol." {
		s.consts[spec.Names[0].Name] = value
	}
	typ, ok := spec.Type.(*ast.Ident)
	if !ok {
		return
	}
	v := s.vocabs[s.pkg+typ.Name]
	if v == nil {
		v = &vocabulary{}
		s.vocabs[s.pkg+typ.Name] = v
	}
	v.values = append(v.values, value)
}

// plainText unfolds a doc comment to one paragraph of prose, with its links as bare names.
func plainText(text string) string {
	var p comment.Parser
	var pr comment.Printer
	pr.TextWidth = -1
	out := string(pr.Text(p.Parse(text)))
	return strings.Join(strings.Fields(out), " ")
}
