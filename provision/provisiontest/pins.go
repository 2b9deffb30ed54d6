package provisiontest

import _ "embed"

//go:embed pins-2.1.197.json
var oldestClaude []byte
