import java.util.List;
import redis.clients.jedis.AbstractTransaction;
import redis.clients.jedis.DefaultJedisClientConfig;
import redis.clients.jedis.HostAndPort;
import redis.clients.jedis.RedisClient;
import redis.clients.jedis.RedisProtocol;
import redis.clients.jedis.Response;
import redis.clients.jedis.csc.Cache;
import redis.clients.jedis.csc.CacheConfig;

/** Jedis: a script, a transaction, and a client-side cache that forgets what another client changes. */
class JedisClientCache {
    static void check(boolean holds, Object what) {
        if (!holds) throw new AssertionError(what);
    }

    public static void main(String[] arguments) throws Exception {
        HostAndPort address = new HostAndPort("127.0.0.1", Integer.parseInt(System.getenv("INDELIBLE_PORT")));
        RedisClient client = RedisClient.builder().hostAndPort(address)
                .clientConfig(DefaultJedisClientConfig.builder().protocol(RedisProtocol.RESP3).build())
                .cacheConfig(CacheConfig.builder().maxSize(100).build()).build();
        RedisClient other = RedisClient.create(address);
        Cache cache = client.getCache();
        for (String value : new String[] {"1", "2", "3"}) {
            other.set("k", value);
            for (int tries = 0; !value.equals(client.get("k")); tries++) {
                check(tries < 1000, "the change was not told: " + value);
                Thread.sleep(10);
            }
            check(value.equals(client.get("k")) && cache.getSize() == 1, cache.getSize());
        }
        check(cache.getStats().getHitCount() > 0 && cache.getStats().getInvalidationCount() > 0, cache.getStats());

        String add = "return redis.call('INCRBY', KEYS[1], ARGV[1])";
        check((Long) other.eval(add, List.of("n"), List.of("4")) == 4, "a script");
        check((Long) other.evalsha(other.scriptLoad(add, "n"), List.of("n"), List.of("5")) == 9, "a script by its sum");
        try (AbstractTransaction transaction = other.multi()) {
            Response<Long> after = transaction.incr("n");
            check(transaction.exec().size() == 1 && after.get() == 10, "a transaction");
        }
        client.close();
        other.close();
        System.out.println("jedis: passed");
    }
}
