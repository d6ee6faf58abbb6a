// rueidis used as applications use it: by default it keeps copies of what it reads (CLIENT TRACKING, OPTIN).

package clients

import (
	"context"
	"net"
	"os"
	"testing"
	"time"

	"github.com/redis/rueidis"
)

func connect(t *testing.T, options rueidis.ClientOption) rueidis.Client {
	t.Helper()
	options.InitAddress = []string{net.JoinHostPort("127.0.0.1", os.Getenv("INDELIBLE_PORT"))}
	client, err := rueidis.NewClient(options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

func set(t *testing.T, client rueidis.Client, key, value string) {
	t.Helper()
	if err := client.Do(context.Background(), client.B().Set().Key(key).Value(value).Build()).Error(); err != nil {
		t.Fatal(err)
	}
}

// read reads a key, from a copy if there is one.
func read(t *testing.T, client rueidis.Client, key string) (string, bool) {
	t.Helper()
	result := client.DoCache(context.Background(), client.B().Get().Key(key).Cache(), time.Minute)
	value, err := result.ToString()
	if err != nil && !rueidis.IsRedisNil(err) {
		t.Fatal(err)
	}
	return value, result.IsCacheHit()
}

func waitUntil(t *testing.T, client rueidis.Client, key, wanted string) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); ; {
		if value, _ := read(t, client, key); value == wanted {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s is not %q", key, wanted)
		}
		time.Sleep(time.Millisecond)
	}
}

func TestCopiesOfWhatWasRead(t *testing.T) {
	client, other := connect(t, rueidis.ClientOption{}), connect(t, rueidis.ClientOption{DisableCache: true})
	set(t, other, "go:a", "1")
	waitUntil(t, client, "go:a", "1")
	for round := 0; round < 100; round++ {
		for _, value := range []string{"2", "3"} {
			set(t, other, "go:a", value)
			waitUntil(t, client, "go:a", value)
			if value, isHit := read(t, client, "go:a"); !isHit {
				t.Fatalf("%s was not kept", value)
			}
		}
	}
	if err := other.Do(context.Background(), other.B().Flushall().Build()).Error(); err != nil {
		t.Fatal(err)
	}
	waitUntil(t, client, "go:a", "")
	if err := other.Do(context.Background(), other.B().Set().Key("go:a").Value("4").PxMilliseconds(50).Build()).Error(); err != nil {
		t.Fatal(err)
	}
	waitUntil(t, client, "go:a", "")
}

func TestCopiesOfKeysWithAPrefix(t *testing.T) {
	options := rueidis.ClientOption{ClientTrackingOptions: []string{"PREFIX", "go:p:", "BCAST"}}
	client, other := connect(t, options), connect(t, rueidis.ClientOption{DisableCache: true})
	for _, value := range []string{"1", "2", "3"} {
		set(t, other, "go:p:a", value)
		waitUntil(t, client, "go:p:a", value)
	}
}
