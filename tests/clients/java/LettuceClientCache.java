import io.lettuce.core.RedisClient;
import io.lettuce.core.TrackingArgs;
import io.lettuce.core.api.StatefulRedisConnection;
import io.lettuce.core.support.caching.CacheAccessor;
import io.lettuce.core.support.caching.CacheFrontend;
import io.lettuce.core.support.caching.ClientSideCaching;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;

/** Lettuce with a client-side cache: what it keeps is forgotten when another client changes it. */
class LettuceClientCache {
    static void check(boolean holds, Object what) {
        if (!holds) throw new AssertionError(what);
    }

    static void all(RedisClient client) throws Exception {
        StatefulRedisConnection<String, String> connection = client.connect();
        StatefulRedisConnection<String, String> other = client.connect();
        Map<String, String> kept = new ConcurrentHashMap<>();
        CacheFrontend<String, String> cache = ClientSideCaching.enable(CacheAccessor.forMap(kept), connection, TrackingArgs.Builder.enabled());
        for (String value : new String[] {"1", "2", "3"}) {
            other.sync().set("k", value);
            for (int tries = 0; !value.equals(cache.get("k")); tries++) {
                check(tries < 1000, "the change was not told: " + value);
                Thread.sleep(10);
            }
            check(kept.equals(Map.of("k", value)), kept);
        }
        check("made".equals(cache.get("new", () -> "made")), "a value that is made on demand");
        check("made".equals(other.sync().get("new")), "is written");
        other.sync().del("k", "new");
        for (int tries = 0; !kept.isEmpty(); tries++) {
            check(tries < 1000, "DEL was not told");
            Thread.sleep(10);
        }
        check(cache.get("k") == null, "nothing is left");
    }

    public static void main(String[] arguments) throws Exception {
        RedisClient client = RedisClient.create("redis://127.0.0.1:" + System.getenv("INDELIBLE_PORT"));
        int status = 1;
        try {
            all(client);
            System.out.println("lettuce " + RedisClient.class.getPackage().getImplementationVersion() + ": passed");
            status = 0;
        } catch (Throwable failure) {
            failure.printStackTrace();
        }
        client.shutdown();
        System.exit(status);
    }
}
