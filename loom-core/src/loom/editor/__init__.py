"""What is generated from the op declarations for readers and editors: syntax lines, vocabulary, grammars."""
