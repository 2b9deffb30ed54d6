// Package archtest holds the rules of the repository that a compiler does not check, as tests: which package may import which, and that every
// package says what it is.
package archtest
