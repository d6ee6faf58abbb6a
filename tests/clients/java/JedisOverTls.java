import java.io.FileInputStream;
import java.io.InputStream;
import java.net.ServerSocket;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.KeyStore;
import java.security.cert.CertificateFactory;
import java.util.Arrays;
import javax.net.ssl.KeyManager;
import javax.net.ssl.KeyManagerFactory;
import javax.net.ssl.SSLContext;
import javax.net.ssl.TrustManagerFactory;
import redis.clients.jedis.DefaultJedisClientConfig;
import redis.clients.jedis.HostAndPort;
import redis.clients.jedis.Jedis;
import redis.clients.jedis.exceptions.JedisConnectionException;

/** Jedis over TLS: with a certificate and without one, a large value both ways. */
class JedisOverTls {
    static void check(boolean holds, Object what) {
        if (!holds) throw new AssertionError(what);
    }

    static Jedis connect(int port, Path place, boolean showsCertificate) throws Exception {
        KeyStore authorities = KeyStore.getInstance(KeyStore.getDefaultType());
        authorities.load(null, null);
        try (InputStream file = new FileInputStream(place.resolve("ca.crt").toFile())) {
            authorities.setCertificateEntry("ca", CertificateFactory.getInstance("X.509").generateCertificate(file));
        }
        TrustManagerFactory trust = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
        trust.init(authorities);
        KeyManager[] keys = new KeyManager[0];
        if (showsCertificate) {
            KeyStore own = KeyStore.getInstance("PKCS12");
            try (InputStream file = new FileInputStream(place.resolve("alice.p12").toFile())) {
                own.load(file, "pass".toCharArray());
            }
            KeyManagerFactory factory = KeyManagerFactory.getInstance(KeyManagerFactory.getDefaultAlgorithm());
            factory.init(own, "pass".toCharArray());
            keys = factory.getKeyManagers();
        }
        SSLContext context = SSLContext.getInstance("TLS");
        context.init(keys, trust.getTrustManagers(), null);
        DefaultJedisClientConfig config =
                DefaultJedisClientConfig.builder().ssl(true).sslSocketFactory(context.getSocketFactory()).build();
        return new Jedis(new HostAndPort("localhost", port), config);
    }

    public static void main(String[] arguments) throws Exception {
        Path place = Files.createTempDirectory("jedis-over-tls");
        int made = new ProcessBuilder("tests/clients/certificates", place.toString()).inheritIO().start().waitFor();
        check(made == 0, "certificates");
        int port;
        try (ServerSocket probe = new ServerSocket(0)) {
            port = probe.getLocalPort();
        }
        Jedis plain = new Jedis(new HostAndPort("127.0.0.1", Integer.parseInt(System.getenv("INDELIBLE_PORT"))));
        plain.configSet("tls-port", Integer.toString(port), "tls-cert-file", place.resolve("server.crt").toString(), "tls-key-file",
                place.resolve("server.key").toString(), "tls-ca-cert-file", place.resolve("ca.crt").toString());
        Jedis client = connect(port, place, true);
        check("PONG".equals(client.ping()), "ping");
        byte[] value = new byte[5_000_000];
        Arrays.fill(value, (byte) 'x');
        client.set("large".getBytes(), value);
        check(Arrays.equals(client.get("large".getBytes()), value), "a large value");
        try {
            connect(port, place, false).ping();
            check(false, "without a certificate");
        } catch (JedisConnectionException expected) {
        }
        plain.configSet("tls-auth-clients", "no");
        check("PONG".equals(connect(port, place, false).ping()), "a certificate is not asked for");
        for (Path file : Files.list(place).toList()) Files.delete(file);
        Files.delete(place);
        System.out.println("jedis-tls: all as it should be");
    }
}
