#!/bin/sh
# Builds the release binaries into dist/: static and stripped, one for each platform, with checksums.
#
#   VERSION=v1.2.3 COMMIT=abc123 REGISTRY=https://... sh tools/release.sh
#
# REGISTRY is the npm registry that the binaries fall back to; it is not printed, and one that holds a password is refused, because everybody who
# has the binary could read it. Without one, the users' own npm configuration or --npm-registry is needed.
set -eu
cd "$(dirname "$0")/.."

GO=${GO:-go}
VERSION=${VERSION:-$(git describe --tags --always --dirty 2>/dev/null || echo dev)}
COMMIT=${COMMIT:-$(git rev-parse --short HEAD 2>/dev/null || echo '')}
REGISTRY=${REGISTRY-$(npm config get registry 2>/dev/null || echo '')}
PLATFORMS=${PLATFORMS:-"linux/amd64 linux/arm64 darwin/amd64 darwin/arm64"}

case $REGISTRY in
*@*) echo "release: the npm registry's address holds a user or a password: set REGISTRY to one without" >&2; exit 1 ;;
'') echo "release: no npm registry is configured, so the binaries get no default" >&2 ;;
esac

ldflags="-s -w -X main.version=$VERSION -X main.commit=$COMMIT -X agentserver/provision.DefaultRegistry=$REGISTRY"
rm -rf dist
mkdir dist
for platform in $PLATFORMS; do
	os=${platform%/*} arch=${platform#*/}
	out=agent-server-$os-$arch
	CGO_ENABLED=0 GOOS=$os GOARCH=$arch "$GO" build -trimpath -ldflags "$ldflags" -o "dist/$out" ./cmd/agent-server
	# A linux binary that asks for no dynamic loader is static. (darwin has no static programs: only its own system library is linked.)
	if [ "$os" = linux ] && command -v readelf >/dev/null && readelf -l "dist/$out" | grep -q INTERP; then
		echo "release: $out is not static" >&2
		exit 1
	fi
	echo "$out $(wc -c <"dist/$out") bytes"
done
cd dist
if command -v sha256sum >/dev/null; then
	sha256sum agent-server-* >SHA256SUMS
else
	shasum -a 256 agent-server-* >SHA256SUMS
fi
cat SHA256SUMS
