"""What tests, benchmarks and users' own tests share: an enumerable language, and scores without workers."""
