# The commands of this repository. `make run` and `make test` need nothing but cargo and make on a Debian
# machine; what else they need they install themselves, and only if it is missing.

PORT ?= 6379
DATA ?= ./data
CARGO ?= cargo

.PHONY: help run release deb archive static container test test-rust test-clients test-clients-all test-admin test-peers tcl lint doc tcl-cold soak bench-first bench-peers figures-pages figures-snapshot figures-snapshot-server figures-recovery figures-transfer figures-tap figures-backup figures-vtc loom-snapshot miri-snapshot mutants-snapshot ycsb test-analytics lint-analytics figures-analytics figures-check

help:
	@echo 'make run          build and start the server on port $(PORT) with its data in $(DATA)'
	@echo 'make release      the program as it is shipped: target/dist/indelible, its debug information next to it'
	@echo 'make deb          the Debian package of that, in target/dist (docs/install.md)'
	@echo 'make archive      the same as an archive'
	@echo 'make static       an archive of one that needs no library of the system'
	@echo 'make container    an image for containers, named indelible; needs docker, or CONTAINER=podman'
	@echo 'make test         every test: Rust, real clients, the Redis Tcl suite'
	@echo 'make test-analytics  tests of indelible-parquet (analytics/), with DuckDB and pyarrow; not part of make test'
	@echo 'make test-admin   the admin page in Chromium, with pictures in target/admin; not part of make test'
	@echo 'make test-peers   dumps and AOFs exchanged with Redis 6.2, 7.0 and 8.2, and read by others; part of make test'
	@echo 'make lint         formatting, clippy, the house rules, figures-check'
	@echo 'make figures-check  the numbers of results/*/README.md against their raw data'
	@echo 'make lint-analytics  formatting and clippy of analytics/; not part of make lint'
	@echo 'make doc          the documentation of all crates, without a warning'
	@echo 'make tcl          the Redis Tcl suite against the server (UNITS="unit/type/string ...")'
	@echo 'make tcl-cold     the same with hardly a value in memory'
	@echo 'make soak         the simulator for MINUTES (10) from SEED, and the long tests with SOAK_FLAGS=--tests'
	@echo 'make bench-first  first numbers beside redis-server (writes results/first-numbers)'
	@echo 'make bench-peers  build with Berkeley DB, LMDB, redb and SQLite beside pages in indelible-bench'
	@echo 'make figures-pages  TPC-C on pages and its peers (writes results/pages; FIGURES_FLAGS="--minutes 5")'
	@echo 'make figures-snapshot  the snapshot algorithms under ticks (writes results/snapshots)'
	@echo 'make figures-snapshot-server  what clients see of BGSAVE, by algorithm, next to Redis: an hour and a half (FIGURES_FLAGS="2" for two rounds)'
	@echo 'make figures-recovery  what clients see of a recovery, by scheme (writes results/recovery; SCALE=1 for all of it)'
	@echo 'make figures-transfer  transfers by scheme, threads and size beside rsync and rclone; needs root'
	@echo 'make figures-tap  what the tap costs and how long recovery takes, on Redis and MariaDB; needs root'
	@echo 'make figures-backup  backups and restores beside Redis and MariaDB, what archiving costs, one figure of every way to keep data; needs root'
	@echo 'make loom-snapshot     every order in which their threads may see each other; needs time, not nightly'
	@echo 'make miri-snapshot     their tests under Miri; needs a nightly compiler'
	@echo 'make mutants-snapshot  breaks the algorithms in one place after the other; a test must fail each time'
	@echo 'make figures-vtc  throughput, memory and files by records, normal and during a checkpoint, next to Redis (paper 000)'
	@echo 'make figures-analytics  what exports cost writers (writes results/analytics); two processors, nothing else on them'
	@echo 'make ycsb         YCSB workloads A and F through bench/ycsb'

run:
	@tests/install-tools build
	$(CARGO) build --release --bin indelible
	@mkdir -p $(DATA)
	target/release/indelible server --port $(PORT) --dir $(DATA)

# Profilers and debuggers find indelible.debug by the link in the program, next to it or in /usr/lib/debug.
release:
	@tests/install-tools build
	$(CARGO) build --release -p indelible-cli
	packaging/strip target/release/indelible target/dist

deb: release
	packaging/deb/build target/dist/indelible target/dist

archive: release
	packaging/archive target/dist/indelible target/dist

# The whole program in one file that needs no library of the system.
MUSL = $(shell uname -m)-unknown-linux-musl
static:
	@tests/install-tools build static
	$(CARGO) build --release --target $(MUSL) -p indelible-cli
	packaging/strip target/$(MUSL)/release/indelible target/dist/static
	packaging/archive target/dist/static/indelible target/dist

# podman needs its format to be told, as only Docker's has health checks.
CONTAINER ?= docker
container: release
	$(CONTAINER) build $(if $(findstring podman,$(CONTAINER)),--format docker) -t indelible -f packaging/container/Containerfile target/dist

test: test-rust test-clients tcl

# Where the peers must be: a test that lacks one of them fails.
PEERS = INDELIBLE_PEERS="$(CURDIR)/target/peers"

test-rust:
	@tests/install-tools build redis redis-peers disks network mariadb
	$(PEERS) $(CARGO) test --workspace --no-fail-fast

test-peers:
	@tests/install-tools build redis redis-peers
	$(PEERS) $(CARGO) test -p indelible-cli --test it peer_

test-clients:
	@tests/install-tools build redis python node
	$(CARGO) build --bin indelible
	tests/clients/run target/debug/indelible server

# The admin page in a real Chromium; its pictures are target/admin/*.png.
test-admin:
	@tests/install-tools build redis disks browser
	$(CARGO) build --bin indelible
	node tests/admin/look.mjs target/debug/indelible server

# With what takes minutes: redis-py's own suite, and the clients for Java and Ruby. Not part of `make test`.
test-clients-all:
	@tests/install-tools build redis python node redis-py clients-java ruby
	$(CARGO) build --bin indelible
	tests/clients/run --all target/debug/indelible server

tcl:
	@tests/install-tools build redis tcl
	$(CARGO) build --bin indelible
	tests/tcl/run $(UNITS)

# A workspace of its own: arrow takes minutes to compile, and the server does not need it.
ANALYTICS = --manifest-path analytics/Cargo.toml --target-dir target/analytics

test-analytics:
	@tests/install-tools build redis analytics
	$(CARGO) test $(ANALYTICS)
	$(CARGO) build $(ANALYTICS)
	PROGRAM="$(CURDIR)/target/analytics/debug/indelible-parquet" target/analytics/python/bin/python -m pytest -q -p no:cacheprovider analytics/tests

lint-analytics:
	@tests/install-tools build
	$(CARGO) fmt --manifest-path analytics/Cargo.toml --check
	$(CARGO) clippy $(ANALYTICS) --all-targets -- -D warnings

# Of a hundred values and keys that may leave memory ninety-nine do, after every few commands; the index is cut every megabyte.
TCL_COLD = --maxmemory-policy cold-lru --cold-keys-maxmemory 0 --debug-drop-values 99 --log-index yes --log-segment-bytes 1mb --log-index-cut-bytes 1mb
tcl-cold:
	@tests/install-tools build redis tcl
	$(CARGO) build --bin indelible
	SERVER="$(CURDIR)/target/debug/indelible server $(TCL_COLD)" ALSO_SKIPPED=tests/tcl/skip-cold.txt tests/tcl/run $(UNITS)

lint:
	@tests/install-tools build
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets -- -D warnings
	$(CARGO) xtask lint
	@tests/deny
	@$(MAKE) --no-print-directory figures-check

figures-check:
	@tests/install-tools figures
	bench/figures-check --self-test

doc:
	@tests/install-tools build
	RUSTDOCFLAGS='-D warnings' $(CARGO) doc --workspace --no-deps

soak:
	@tests/install-tools build redis disks
	$(CARGO) xtask soak $(if $(MINUTES),--minutes $(MINUTES)) $(if $(SEED),--seed $(SEED)) $(SOAK_FLAGS)

bench-first:
	@tests/install-tools build redis python
	$(CARGO) build --release --bin indelible
	bench/first-numbers $(BENCH_FLAGS)

bench-peers:
	@tests/install-tools build peers
	$(CARGO) build --release -p indelible-bench --features peers

figures-pages: bench-peers
	mkdir -p results/pages target/figures
	target/release/indelible-bench figures pages --dir target/figures --results results/pages $(FIGURES_FLAGS)
	bench/pages/beside-figures target/release/indelible-bench target/figures results/pages/beside

ycsb:
	@tests/install-tools build java
	$(CARGO) build --release --bin indelible
	bench/ycsb/run

# Two processors and nothing else on them; goes on where it was interrupted.
figures-snapshot:
	@tests/install-tools build
	$(CARGO) build --release -p indelible-bench
	bench/snapshot/sweep target/release/indelible-bench target/figures/snapshots $(MINUTES)
	bench/snapshot/cache-misses target/release/indelible-bench target/figures/snapshots
	target/release/indelible-bench snapshot-figures --runs target/figures/snapshots --results results/snapshots

# As figures-snapshot. SCALE=1 for the 1,600 records a key of the paper, and 200 GB of disk.
figures-recovery:
	@tests/install-tools build
	$(CARGO) build --release -p indelible-bench
	bench/recovery/sweep target/release/indelible-bench target/figures/recovery/runs target/figures/recovery/work $(MINUTES)
	mkdir -p results/recovery/runs
	cp target/figures/recovery/runs/*.json target/figures/recovery/runs/*.csv results/recovery/runs/
	target/release/indelible-bench recovery-figures --runs results/recovery/runs --results results/recovery

# Loop devices and a throttled disk need root. SWEEP_FLAGS="--rounds 5 --file-mib 1000" for the paper's sizes.
figures-transfer:
	@tests/install-tools build disks transfer-peers
	$(CARGO) build --release --bin indelible
	bench/transfer/sweep target/release/indelible target/figures/transfer --work target $(SWEEP_FLAGS)
	bench/transfer/figures target/figures/transfer results/transfer

# Capturing needs root. SWEEP_FLAGS="--seconds 10 --durations 10,20,30,60 --partials 10" for the paper's durations.
figures-tap:
	@tests/install-tools build redis mariadb
	$(CARGO) build --release --bin indelible
	bench/tap/sweep target/release/indelible target/figures/tap $(SWEEP_FLAGS)
	bench/tap/figures target/figures/tap results/tap

# Figures 5.6 and 5.7 of paper 001 and what is asked of backups: two processors and nothing else on them, throttled loop devices, so
# root. Hours and 45 GB; BACKUP_SCALE=0.1 takes about half an hour and 9 GB. SCENARIO_FLAGS="--systems indelible redis-aof".
BACKUP_SCALE ?= 1
BACKUP = target/release/indelible target/figures/backup --scale $(BACKUP_SCALE)
figures-backup:
	@tests/install-tools build redis redis-peers mariadb mariadb-backup disks
	$(CARGO) build --release --bin indelible --bin indelible-bench
	mkdir -p results/backup
	bench/backup/scenario $(BACKUP) --redis82 target/peers/redis-8.2/redis-server --out results/backup/scenario.jsonl $(SCENARIO_FLAGS)
	bench/backup/archiving $(BACKUP) --out results/backup/archiving.jsonl $(ARCHIVING_FLAGS)
	bench/backup/restores $(BACKUP) --out results/backup/restores.jsonl $(RESTORES_FLAGS)
	bench/backup/one-system $(BACKUP) --out results/backup/one-system.jsonl $(ONE_SYSTEM_FLAGS)
	bench/backup/undo $(BACKUP) --rounds 5 --out results/backup/undo.jsonl
	bench/backup/run target/release/indelible target/figures/backup --rounds 5 > results/backup/latency.jsonl
	bench/backup/figures results/backup $(patsubst %,results/backup/%.jsonl,scenario archiving restores one-system)

# Paper 000: two processors and nothing else on them; hours for all of it. A run that was ended goes on where it was. VTC_FLAGS="--records 1000000
# --rounds 1 --seconds 15 --systems indelible redis-aof redis-rdb" takes six minutes.
figures-vtc:
	@tests/install-tools build redis redis-peers
	$(CARGO) build --release --bin indelible --bin indelible-bench
	mkdir -p results/vtc
	bench/vtc/run target/release/indelible target/figures/vtc --redis82 target/peers/redis-8.2/redis-server --out results/vtc/runs.jsonl $(VTC_FLAGS)
	target/release/indelible-bench vtc-figures --runs results/vtc/runs.jsonl --results results/vtc

# BENCH_FLAGS="--rounds 5 --export-processors 2" where there are three processors.
figures-analytics:
	@tests/install-tools build analytics
	$(CARGO) build --release --bin indelible
	$(CARGO) build $(ANALYTICS) --release --bin indelible-parquet --example transfers
	@mkdir -p results/analytics
	target/analytics/python/bin/python analytics/bench/while-writing target/release/indelible target/figures/analytics \
		--programs target/analytics/release $(BENCH_FLAGS) | tee results/analytics/raw.txt

loom-snapshot:
	RUSTFLAGS='--cfg loom' $(CARGO) test --release --target-dir target/loom -p indelible-snapshot --test loom

miri-snapshot:
	MIRIFLAGS='-Zmiri-disable-isolation' PROPTEST_DISABLE_FAILURE_PERSISTENCE=1 \
		$(CARGO) +nightly miri test --target-dir target/miri -p indelible-snapshot

mutants-snapshot:
	crates/snapshot/tests/mutants

# All regimes, into target/; FIGURES_FLAGS="ROUNDS REDIS82".
figures-snapshot-server:
	@tests/install-tools build redis python
	$(CARGO) build --release --bin indelible --bin indelible-bench
	bench/snapshot-server/sitting target/release/indelible target/snapshot-server target/figures/snapshot-server $(FIGURES_FLAGS)
