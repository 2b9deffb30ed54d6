// Package provision decides which build of an agent's CLI a harness runs, and installs the pinned build when there is none.
//
// A [Provisioner] answers one question, [Provisioner.Resolve]: the path of a `claude` or `codex` that was checked. It looks, in the order
// that its [Mode] gives, at the operator's override, at what the host has installed, at the managed cache, and at the npm registry.
//
// # What is trusted
//
//   - The operator: overrides, PATH and the cache folder come from options and the environment, never from a peer.
//   - The pins: the sha512 of every package is compiled in (pins.json). What a registry says about itself is never believed, so a mirror, a
//     proxy or a thief of the registry can make an install fail and can do nothing else.
//   - The cache folder, once its owner, its mode and every folder above it were checked. No byte of a download is run before its hash was
//     compared.
//
// # The cache
//
// A version lives in <root>/<tool>/<version>-<platform>, is renamed there when it is complete, and is therefore whole or absent. Installers
// in any number of processes agree by an OS lock per version and end with one copy from one download. A process that is killed leaves at most a
// temporary folder, which the next install removes.
//
// All types are safe for concurrent use unless their comment says otherwise. The package logs nothing but one line for each resolution.
package provision

//go:generate go run ./internal/genpins -out pins.json
//go:generate go run ./internal/genpins -tool claude -version 2.1.197 -out provisiontest/pins-2.1.197.json
