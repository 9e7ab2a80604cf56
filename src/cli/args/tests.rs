//! The command line as it is parsed.

use super::*;

fn parse(line: &str) -> Result<Cli, String> {
    Cli::try_parse_from(line.split(' ')).map_err(|error| error.to_string())
}

#[test]
fn the_definitions_are_sound() {
    command().debug_assert();
}

#[test]
fn an_id_is_a_whole_number_from_1() {
    assert_eq!(parse_id("7").unwrap().get(), 7);
    assert_eq!(parse_id("18446744073709551615").unwrap().get(), u64::MAX);
    for bad in ["0", "-1", "18446744073709551616", "7abc", "+7", "", " 7", "7.0", "0x7", "٧"] {
        let text = parse_id(bad).unwrap_err();
        assert!(text.contains("whole number from 1"), "{bad:?}: {text}");
    }
    let line = "nexus dlq discard --tenant acme --flow x --id -1";
    let text = parse(line).unwrap_err();
    assert!(text.contains("invalid value '-1'") && text.contains("from 1 to"), "{text}");
}

#[test]
fn replay_and_discard_need_all_three() {
    for missing in ["--flow x --id 7", "--tenant a --id 7", "--tenant a --flow x"] {
        for verb in ["replay", "discard"] {
            let text = parse(&format!("nexus dlq {verb} {missing}")).unwrap_err();
            assert!(text.contains("required"), "{text}");
        }
    }
}

#[test]
fn serve_has_the_documented_defaults() {
    let Command::Serve(args) = parse("nexus serve").unwrap().command else { panic!() };
    assert_eq!(args.listen.to_string(), "127.0.0.1:9090");
    assert!((2..=64).contains(&args.acceptors()));
    assert_eq!((args.max_connections, args.max_queues), (10_000, 4096));
    assert_eq!(args.max_message_bytes, 1 << 20);
    assert_eq!(args.grace(), Duration::from_secs(25));
    assert_eq!((args.resume, args.log_format, args.dev), (Resume::AtStart, None, false));
    assert!(args.files.is_empty());
}

#[test]
fn what_is_past_a_bound_is_refused_with_the_bound() {
    for (flag, bound) in [
        ("--max-message-bytes 67108865", "67108864"),
        ("--max-message-bytes 0", "1..="),
        ("--acceptors 0", "1..="),
        ("--acceptors 65", "64"),
        ("--max-connections 1000001", "1000000"),
        ("--max-queues 9999999", "1048576"),
        ("--grace 3601", "3600"),
    ] {
        let text = parse(&format!("nexus serve {flag}")).unwrap_err();
        assert!(text.contains(bound), "{text}");
    }
    assert!(parse("nexus serve --max-message-bytes 67108864").is_ok());
}

#[test]
fn an_address_is_an_ip_address_and_a_port_or_localhost() {
    assert_eq!(address("localhost:9393").unwrap().to_string(), "127.0.0.1:9393");
    assert_eq!(address("[::1]:1").unwrap().to_string(), "[::1]:1");
    for bad in ["9191", ":80000", "example.com:1", "localhost", "127.0.0.1:70000"] {
        assert!(address(bad).unwrap_err().contains("127.0.0.1:9090"), "{bad}");
    }
}
