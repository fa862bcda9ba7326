use super::{ServiceTime, uniform};

fn parse(text: &str) -> Result<ServiceTime, String> {
    ServiceTime::parse(text, |file| match file {
        "times" => Ok("10ms\n\n20ms # slow\n# nothing\n 30ms\n".to_owned()),
        "bad" => Ok("10ms\ntwenty\n".to_owned()),
        "empty" => Ok("# nothing\n".to_owned()),
        _ => Err(format!("cannot read {file}")),
    })
}

#[test]
fn the_forms_are_read() {
    let check = |text, expected| assert_eq!(parse(text), Ok(expected), "{text}");
    check("constant:20ms", ServiceTime::Constant(20_000_000));
    check("20ms", ServiceTime::Constant(20_000_000));
    check("exp:1.5ms", ServiceTime::Exponential { mean_ns: 1_500_000.0 });
    check("lognormal:20ms,0.5", ServiceTime::LogNormal { median_ns: 20e6, sigma: 0.5 });
    check("list:times", ServiceTime::List(vec![10_000_000, 20_000_000, 30_000_000]));
    let ServiceTime::Mix(shares) = parse("mix:98%10ms+2%exp:500ms").unwrap() else { panic!() };
    assert_eq!(shares[0].time, ServiceTime::Constant(10_000_000));
    assert_eq!(shares[1].time, ServiceTime::Exponential { mean_ns: 500e6 });
    assert!((shares[0].cumulative - 0.98).abs() < 1e-12 && shares[1].cumulative >= 1.0);
}

#[test]
fn mistakes_are_said_in_a_sentence() {
    let check = |text, part: &str| {
        let error = parse(text).unwrap_err();
        assert!(error.contains(part), "{text}: {error}");
    };
    check("", "constant:20ms");
    check("fast", "mix:98%10ms");
    check("uniform:20ms", "`uniform`");
    check("exp:0ms", "above zero");
    check("exp:20", "`20ms`");
    check("lognormal:20ms", "sigma");
    check("lognormal:20ms,-1", "sigma");
    check("lognormal:20ms,NaN", "sigma");
    check("mix:98%10ms", "98 %");
    check("mix:98%10ms+3%1s", "101 %");
    check("mix:10ms+2%500ms", "`10ms`");
    check("mix:NaN%10ms+100%1s", "`NaN%10ms`");
    check("mix:100%mix:100%1s", "`mix`");
    check("list:nowhere", "cannot read nowhere");
    check("list:bad", "bad:2: `twenty`");
    check("list:empty", "no times");
}

#[test]
fn a_draw_depends_on_seed_and_number_alone() {
    for text in ["exp:20ms", "lognormal:5ms,1", "mix:50%exp:1ms+50%2ms"] {
        let time = parse(text).unwrap();
        let draws = |seed| (0..1000).map(|n| time.draw_ns(seed, n)).collect::<Vec<_>>();
        assert_eq!(draws(7), draws(7));
        assert_ne!(draws(7), draws(8));
        assert_eq!(time.draw_ns(7, 500), draws(7)[500]);
    }
}

#[test]
fn a_list_is_taken_in_order_and_again() {
    let list = parse("list:times").unwrap();
    let drawn: Vec<u64> = (0..7).map(|n| list.draw_ns(1, n) / 1_000_000).collect();
    assert_eq!(drawn, [10, 20, 30, 10, 20, 30, 10]);
}

/// The Kolmogorov–Smirnov distance of the draws from the requested distribution, times the square
/// root of their number. It exceeds 1.95 for one seed in a thousand; the seeds of the tests are
/// fixed.
fn distance(time: &ServiceTime, seed: u64) -> f64 {
    let count = 100_000_u64;
    let mut drawn: Vec<u64> = (0..count).map(|n| time.draw_ns(seed, n)).collect();
    drawn.sort_unstable();
    let mut worst = 0.0_f64;
    for (place, value) in drawn.iter().enumerate() {
        let expected = time.share_within(*value as f64);
        let below = place as f64 / count as f64;
        let within = (place + 1) as f64 / count as f64;
        worst = worst.max((expected - below).abs()).max((within - expected).abs());
    }
    worst * (count as f64).sqrt()
}

#[test]
fn draws_follow_the_distribution_asked_for() {
    for text in [
        "exp:20ms",
        "lognormal:20ms,0.5",
        "lognormal:1ms,2",
        "mix:98%exp:10ms+2%lognormal:500ms,0.1",
    ] {
        let time = parse(text).unwrap();
        for seed in 0..5 {
            let found = distance(&time, seed);
            assert!(found < 1.95, "{text}, seed {seed}: {found}");
        }
    }
    // The test detects a difference: draws with a mean of 20 ms do not fit a mean of 20.5 ms.
    let other = ServiceTime::Exponential { mean_ns: 20.5e6 };
    let mut drawn: Vec<u64> =
        (0..100_000).map(|n| parse("exp:20ms").unwrap().draw_ns(0, n)).collect();
    drawn.sort_unstable();
    let worst = drawn
        .iter()
        .enumerate()
        .map(|(place, value)| (other.share_within(*value as f64) - place as f64 / 1e5).abs());
    assert!(worst.fold(0.0, f64::max) * 1e5_f64.sqrt() > 1.95);
}

#[test]
fn a_mix_has_its_shares() {
    let mix = parse("mix:98%10ms+2%500ms").unwrap();
    let slow = (0..100_000).filter(|n| mix.draw_ns(3, *n) == 500_000_000).count();
    // Within 4.5 standard deviations (44) of 2,000.
    assert!((1_800..=2_200).contains(&slow), "{slow}");
    assert!((mix.mean_ns() - 19.8e6).abs() < 1.0);
    assert_eq!(mix.quantile_ns(0.9) as u64, 10_000_000);
    assert!((mix.quantile_ns(0.99) - 500e6).abs() < 1.0);
}

#[test]
fn quantiles_and_means_are_those_of_theory() {
    let near = |found: f64, expected: f64| {
        assert!((found / expected - 1.0).abs() < 1e-9, "{found} {expected}");
    };
    let exponential = parse("exp:20ms").unwrap();
    near(exponential.quantile_ns(0.5), 20e6 * 2.0_f64.ln());
    near(exponential.quantile_ns(0.999), 20e6 * 1000.0_f64.ln());
    let lognormal = parse("lognormal:20ms,0.5").unwrap();
    near(lognormal.quantile_ns(0.5), 20e6);
    near(lognormal.mean_ns(), 20e6 * 0.125_f64.exp());
    let list = parse("list:times").unwrap();
    near(list.quantile_ns(0.5), 20e6);
    near(list.quantile_ns(1.0), 30e6);
    near(list.mean_ns(), 20e6);
    let mix = parse("mix:50%exp:1ms+50%exp:9ms").unwrap();
    for p in [0.01, 0.3, 0.9, 0.9999] {
        assert!((mix.share_within(mix.quantile_ns(p)) - p).abs() < 1e-9, "{p}");
    }
    assert!(exponential.quantile_ns(1.0).is_finite() && exponential.quantile_ns(2.0).is_finite());
}

#[test]
fn uniform_numbers_never_reach_zero_or_one() {
    for n in 0..10_000 {
        let number = uniform(0, n);
        assert!(number > 0.0 && number < 1.0);
    }
}
