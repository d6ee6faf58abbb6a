/* Between Berkeley DB 5.3 and bdb.rs: its interface is structures full of function pointers, which C reads from
 * the header of the installed version. Everything that fails returns Berkeley DB's own error number. */

#include <db.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PAGE_BYTES 8192
#define LOG_BUFFER_BYTES (1 << 20)
#define LOG_FILE_BYTES (10 << 20)
/* Locks are of pages; a transaction that checks a district has thousands. */
#define LOCKS 100000

struct bdb {
	DB_ENV *env;
	DB **tables;
	int table_count;
};

struct bdb_counters {
	uint64_t page_reads, page_writes, log_writes, log_bytes, log_syncs;
	uint64_t hits, misses, evictions_clean, evictions_dirty, deadlocks;
};

int bdb_close(struct bdb *bdb)
{
	int first = 0, error;
	for (int i = 0; i < bdb->table_count; i++)
		if (bdb->tables[i] != NULL && (error = bdb->tables[i]->close(bdb->tables[i], 0)) != 0 && first == 0)
			first = error;
	if (bdb->env != NULL && (error = bdb->env->close(bdb->env, 0)) != 0 && first == 0)
		first = error;
	free(bdb->tables);
	free(bdb);
	return first;
}

static int open_environment(DB_ENV *env, const char *dir, uint64_t cache_bytes)
{
	int error;
	uint32_t gigabytes = (uint32_t)(cache_bytes >> 30), bytes = (uint32_t)(cache_bytes & ((1 << 30) - 1));
	if ((error = env->set_cachesize(env, gigabytes, bytes, 1)) != 0)
		return error;
	env->set_lk_max_locks(env, LOCKS);
	env->set_lk_max_objects(env, LOCKS);
	env->set_lk_max_lockers(env, 1000);
	env->set_lk_detect(env, DB_LOCK_DEFAULT);
	env->set_lg_bsize(env, LOG_BUFFER_BYTES);
	env->set_lg_max(env, LOG_FILE_BYTES);
	env->log_set_config(env, DB_LOG_AUTO_REMOVE, 1);
	/* The environment is of this process alone: no files but data and log. */
	return env->open(env, dir,
	    DB_CREATE | DB_PRIVATE | DB_THREAD | DB_RECOVER | DB_INIT_TXN | DB_INIT_LOG | DB_INIT_LOCK | DB_INIT_MPOOL,
	    0644);
}

int bdb_open(const char *dir, uint64_t cache_bytes, const char *const *names, int table_count, struct bdb **opened)
{
	int error;
	struct bdb *bdb = calloc(1, sizeof *bdb);
	if (bdb == NULL || (bdb->tables = calloc(table_count, sizeof *bdb->tables)) == NULL) {
		free(bdb);
		return DB_RUNRECOVERY;
	}
	bdb->table_count = table_count;
	if ((error = db_env_create(&bdb->env, 0)) != 0)
		goto failed;
	if ((error = open_environment(bdb->env, dir, cache_bytes)) != 0)
		goto failed;
	for (int i = 0; i < table_count; i++) {
		if ((error = db_create(&bdb->tables[i], bdb->env, 0)) != 0)
			goto failed;
		bdb->tables[i]->set_pagesize(bdb->tables[i], PAGE_BYTES);
		error = bdb->tables[i]->open(bdb->tables[i], NULL, names[i], NULL, DB_BTREE,
		    DB_CREATE | DB_AUTO_COMMIT | DB_THREAD, 0644);
		if (error != 0)
			goto failed;
	}
	*opened = bdb;
	return 0;
failed:
	bdb_close(bdb);
	return error;
}

int bdb_begin(struct bdb *bdb, DB_TXN **transaction)
{
	return bdb->env->txn_begin(bdb->env, NULL, transaction, 0);
}

int bdb_commit(DB_TXN *transaction, int is_synced)
{
	return transaction->commit(transaction, is_synced ? DB_TXN_SYNC : DB_TXN_NOSYNC);
}

int bdb_abort(DB_TXN *transaction)
{
	return transaction->abort(transaction);
}

static void into_memory(DBT *dbt, void *data, uint32_t capacity, uint32_t size)
{
	memset(dbt, 0, sizeof *dbt);
	dbt->data = data;
	dbt->size = size;
	dbt->ulen = capacity;
	dbt->flags = DB_DBT_USERMEM;
}

static void from_memory(DBT *dbt, const void *data, uint32_t size)
{
	memset(dbt, 0, sizeof *dbt);
	dbt->data = (void *)data;
	dbt->size = size;
}

/* On DB_BUFFER_SMALL, value_bytes says what is needed. */
int bdb_get(struct bdb *bdb, DB_TXN *transaction, int table, const void *key, uint32_t key_bytes, int is_for_update,
    void *value, uint32_t capacity, uint32_t *value_bytes)
{
	DBT k, v;
	DB *db = bdb->tables[table];
	from_memory(&k, key, key_bytes);
	into_memory(&v, value, capacity, 0);
	int error = db->get(db, transaction, &k, &v, is_for_update ? DB_RMW : 0);
	*value_bytes = v.size;
	return error;
}

int bdb_put(struct bdb *bdb, DB_TXN *transaction, int table, const void *key, uint32_t key_bytes, const void *value,
    uint32_t value_bytes)
{
	DBT k, v;
	DB *db = bdb->tables[table];
	from_memory(&k, key, key_bytes);
	from_memory(&v, value, value_bytes);
	return db->put(db, transaction, &k, &v, 0);
}

int bdb_delete(struct bdb *bdb, DB_TXN *transaction, int table, const void *key, uint32_t key_bytes)
{
	DBT k;
	DB *db = bdb->tables[table];
	from_memory(&k, key, key_bytes);
	return db->del(db, transaction, &k, 0);
}

int bdb_cursor(struct bdb *bdb, DB_TXN *transaction, int table, DBC **cursor)
{
	DB *db = bdb->tables[table];
	return db->cursor(db, transaction, cursor, 0);
}

int bdb_cursor_close(DBC *cursor)
{
	return cursor->close(cursor);
}

/* move: 0 the first key at or behind the one in `key`, 1 the next, 2 the previous, 3 the last. */
int bdb_cursor_move(DBC *cursor, int move, void *key, uint32_t key_capacity, uint32_t *key_bytes, void *value,
    uint32_t capacity, uint32_t *value_bytes)
{
	static const uint32_t moves[] = { DB_SET_RANGE, DB_NEXT, DB_PREV, DB_LAST };
	DBT k, v;
	into_memory(&k, key, key_capacity, *key_bytes);
	into_memory(&v, value, capacity, 0);
	int error = cursor->get(cursor, &k, &v, moves[move]);
	*key_bytes = k.size;
	*value_bytes = v.size;
	return error;
}

int bdb_flush_log(struct bdb *bdb)
{
	return bdb->env->log_flush(bdb->env, NULL);
}

/* Takes a checkpoint if there is so much log since the last; 0 takes one always. */
int bdb_checkpoint(struct bdb *bdb, uint32_t log_kilobytes)
{
	return bdb->env->txn_checkpoint(bdb->env, log_kilobytes, 0, log_kilobytes == 0 ? DB_FORCE : 0);
}

int bdb_count(struct bdb *bdb, struct bdb_counters *counters)
{
	DB_MPOOL_STAT *pool;
	DB_LOG_STAT *log;
	DB_LOCK_STAT *lock;
	int error;
	memset(counters, 0, sizeof *counters);
	if ((error = bdb->env->memp_stat(bdb->env, &pool, NULL, 0)) != 0)
		return error;
	counters->page_reads = pool->st_page_in;
	counters->page_writes = pool->st_page_out;
	counters->hits = pool->st_cache_hit;
	counters->misses = pool->st_cache_miss;
	counters->evictions_clean = pool->st_ro_evict;
	counters->evictions_dirty = pool->st_rw_evict;
	free(pool);
	if ((error = bdb->env->log_stat(bdb->env, &log, 0)) != 0)
		return error;
	counters->log_writes = log->st_wcount;
	counters->log_bytes = ((uint64_t)log->st_w_mbytes << 20) + log->st_w_bytes;
	counters->log_syncs = log->st_scount;
	free(log);
	if ((error = bdb->env->lock_stat(bdb->env, &lock, 0)) != 0)
		return error;
	counters->deadlocks = lock->st_ndeadlocks;
	free(lock);
	return 0;
}

static void (*trace)(int kind, int fd, const char *path, uint64_t offset, uint64_t bytes);

static ssize_t traced_pread(int fd, void *buffer, size_t bytes, off_t offset)
{
	trace(1, fd, NULL, offset, bytes);
	return pread(fd, buffer, bytes, offset);
}

static ssize_t traced_pwrite(int fd, const void *buffer, size_t bytes, off_t offset)
{
	trace(2, fd, NULL, offset, bytes);
	return pwrite(fd, buffer, bytes, offset);
}

static ssize_t traced_write(int fd, const void *buffer, size_t bytes)
{
	trace(2, fd, NULL, lseek(fd, 0, SEEK_CUR), bytes);
	return write(fd, buffer, bytes);
}

static int traced_unlink(const char *path)
{
	trace(3, -1, path, 0, 0);
	return unlink(path);
}

/* Tells `tracer` of every read (1), write (2) and removal (3); before any environment is made. */
void bdb_trace(void (*tracer)(int, int, const char *, uint64_t, uint64_t))
{
	trace = tracer;
	db_env_set_func_pread(traced_pread);
	db_env_set_func_pwrite(traced_pwrite);
	db_env_set_func_write(traced_write);
	db_env_set_func_unlink(traced_unlink);
}

const char *bdb_text(int error)
{
	return db_strerror(error);
}

int bdb_is(int error, int what)
{
	switch (what) {
	case 0:
		return error == DB_LOCK_DEADLOCK || error == DB_LOCK_NOTGRANTED;
	case 1:
		return error == DB_NOTFOUND || error == DB_KEYEMPTY;
	default:
		return error == DB_BUFFER_SMALL;
	}
}
