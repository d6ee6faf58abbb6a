# Sidekiq with a worker of its own: jobs, jobs for later, retries, the dead, statistics.

require "sidekiq"
require "sidekiq/api"

URL = "redis://127.0.0.1:#{ENV.fetch("INDELIBLE_PORT")}/0"
Sidekiq.configure_client { |config| config.redis = { url: URL } }
Sidekiq.configure_server do |config|
  config.redis = { url: URL }
  config.average_scheduled_poll_interval = 1
end

class Note
  include Sidekiq::Worker

  def perform(list, word)
    Sidekiq.redis { |client| client.rpush("noted:#{list}", word) }
  end
end

class SecondTime
  include Sidekiq::Worker
  sidekiq_options retry: 3
  sidekiq_retry_in { 600 }

  def perform
    tries = Sidekiq.redis { |client| client.incr("tries") }
    raise "not yet" if tries < 2
  end
end

class Fails
  include Sidekiq::Worker
  sidekiq_options retry: 0

  def perform
    raise "never"
  end
end

def noted(list)
  Sidekiq.redis { |client| client.lrange("noted:#{list}", 0, -1) }
end

def wait_until(what)
  deadline = Process.clock_gettime(Process::CLOCK_MONOTONIC) + 60
  until yield
    raise "did not come true: #{what}" if Process.clock_gettime(Process::CLOCK_MONOTONIC) > deadline

    sleep 0.02
  end
end

def check(what, holds)
  raise what unless holds
end

def main
  20.times { |n| Note.perform_async("first", n.to_s) }
  check("twenty jobs wait", Sidekiq::Queue.new.size == 20)
  late = Note.perform_in(600, "late", "late")
  worker = Process.spawn("sidekiq", "-r", File.expand_path(__FILE__), "-c", "2", out: File::NULL)
  begin
    wait_until("twenty jobs") { noted("first").size == 20 }
    check("each job once", noted("first").map(&:to_i).sort == (0...20).to_a)
    Note.perform_in(1, "soon", "soon")
    wait_until("a job for later, put in by the worker's scheduler") { noted("soon") == ["soon"] }
    Sidekiq::Client.push_bulk("class" => Note, "args" => (0...50).map { |n| ["bulk", n.to_s] })
    wait_until("fifty jobs at once") { noted("bulk").size == 50 }

    SecondTime.perform_async
    wait_until("a job that is to be tried again") { Sidekiq::RetrySet.new.size == 1 }
    Sidekiq::RetrySet.new.retry_all
    wait_until("the second try") { Sidekiq.redis { |client| client.get("tries") } == "2" }
    Fails.perform_async
    wait_until("a job that is dead") { Sidekiq::DeadSet.new.size == 1 }

    check("one job for later is left", Sidekiq::ScheduledSet.new.find_job(late).delete)
    wait_until("the worker's heartbeat") { Sidekiq::ProcessSet.new.size == 1 }
    wait_until("its count of jobs") { Sidekiq::Stats.new.processed >= 74 && Sidekiq::Stats.new.failed == 2 }
  ensure
    Process.kill("TERM", worker)
    Process.wait(worker)
  end
  check("the worker ends in peace", $?.success?)
  puts "sidekiq #{Sidekiq::VERSION}: passed"
end

main if $PROGRAM_NAME == __FILE__
