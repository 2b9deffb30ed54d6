package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"

	"agentserver/protocol"
)

// typescript writes the schema's definitions as TypeScript types. It knows only what buildSchema makes.
func typescript(s *schema) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "// Generated from agent-server.schema.json. Do not edit.\n// %s\n", intro)
	for _, name := range s.order {
		n := s.known[name]
		b.WriteByte('\n')
		tsComment(&b, "", n)
		if n.get("type") == "object" && n.get("properties") != nil && n.get("additionalProperties") == nil {
			fmt.Fprintf(&b, "export interface %s %s\n", name, tsObject(n, ""))
			continue
		}
		fmt.Fprintf(&b, "export type %s = %s;\n", name, tsType(n, ""))
	}
	b.WriteString("\n/** What each method takes and answers. */\nexport interface Methods {\n")
	for _, m := range protocol.Methods() {
		fmt.Fprintf(&b, "  %q: { params: %sParams; result: %sResult };\n", m.Name, goName(m.Name), goName(m.Name))
	}
	b.WriteString("}\n")
	return b.Bytes()
}

func tsComment(b *bytes.Buffer, indent string, n *node) {
	if d, _ := n.get("description").(string); d != "" {
		fmt.Fprintf(b, "%s/** %s */\n", indent, strings.ReplaceAll(d, "*/", "* /"))
	}
}

var identifier = regexp.MustCompile(`^[a-zA-Z_$][\w$]*$`)

func tsObject(n *node, indent string) string {
	props, _ := n.get("properties").(*node)
	if props == nil {
		return "{ [key: string]: unknown }"
	}
	required := map[string]bool{}
	names, _ := n.get("required").([]string)
	for _, r := range names {
		required[r] = true
	}
	var b bytes.Buffer
	b.WriteString("{\n")
	for _, m := range props.members {
		p := m.value.(*node)
		tsComment(&b, indent+"  ", p)
		key := m.key
		if !identifier.MatchString(key) {
			key = fmt.Sprintf("%q", key)
		}
		if !required[m.key] {
			key += "?"
		}
		fmt.Fprintf(&b, "%s  %s: %s;\n", indent, key, tsType(p, indent+"  "))
	}
	return b.String() + indent + "}"
}

func tsType(n *node, indent string) string {
	switch {
	case n.get("$ref") != nil:
		return strings.TrimPrefix(n.get("$ref").(string), "#/$defs/")
	case n.get("const") != nil:
		return tsLiteral(n.get("const"))
	case n.get("enum") != nil:
		return tsUnion(n.get("enum").([]string))
	case n.get("examples") != nil: // an open vocabulary: the known values complete in an editor, others are allowed
		return tsUnion(n.get("examples").([]string)) + " | (string & {})"
	case n.get("oneOf") != nil:
		return tsArms(n.get("oneOf").([]any), indent)
	case n.get("anyOf") != nil:
		return tsArms(n.get("anyOf").([]any), indent)
	}
	switch t := n.get("type").(type) {
	case nil:
		return "unknown"
	case []string:
		var all []string
		for _, one := range t {
			all = append(all, tsType(new(node).set("type", one), indent))
		}
		return strings.Join(all, " | ")
	case string:
		return tsSimple(n, t, indent)
	}
	return "unknown"
}

func tsSimple(n *node, typ, indent string) string {
	switch typ {
	case "integer", "number":
		return "number"
	case "array":
		items := tsType(n.get("items").(*node), indent)
		if n.get("maxItems") == 2 {
			return "[" + items + ", " + items + "]"
		}
		if strings.ContainsAny(items, " |") {
			items = "(" + items + ")"
		}
		return items + "[]"
	case "object":
		if v, ok := n.get("additionalProperties").(*node); ok {
			return "{ [name: string]: " + tsType(v, indent) + " }"
		}
		return tsObject(n, indent)
	}
	return typ
}

func tsArms(arms []any, indent string) string {
	var all []string
	for _, a := range arms {
		// With the unknown member among them, a switch over the type would no longer tell the others apart.
		if t := tsType(a.(*node), indent); !strings.HasPrefix(t, "Unknown") {
			all = append(all, t)
		}
	}
	return strings.Join(all, " | ")
}

func tsUnion(values []string) string {
	var all []string
	for _, v := range values {
		all = append(all, tsLiteral(v))
	}
	return strings.Join(all, " | ")
}

func tsLiteral(v any) string {
	raw, _ := json.Marshal(v)
	return string(raw)
}
