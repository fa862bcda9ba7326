//! The cost of each policy's choice, dispatch and release with ten endpoints and no limits, and of
//! hashing a key. Run by `make bench-balance`.

use std::hint::black_box;
use std::sync::Arc;

use criterion::{Criterion, criterion_group, criterion_main};
use weir_balance::{
    Arrival, BalanceFactor, Balancer, FairSettings, HashSettings, Member, PolicyKind, Request,
    Settings, Slot, Tried, WeightMode, hash_key,
};

const ENDPOINTS: u32 = 10;

fn pool(policy: PolicyKind, weight: impl Fn(u32) -> u32) -> Arc<Balancer> {
    let member = |number: u32| Member {
        identity: hash_key(&number.to_le_bytes()),
        weight: weight(number),
        max_conn: None,
        tier: 0,
        ejection: None,
        slow_start_us: 0,
        state: Arc::default(),
    };
    Balancer::new(Settings::new(policy), (0..ENDPOINTS).map(member).collect())
}

/// A different number every time, for `random` and for the key.
fn numbers() -> impl FnMut() -> u64 {
    let mut number = 0_u64;
    move || {
        number = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
        number
    }
}

fn slot(pool: &Arc<Balancer>, tried: &Tried, number: u64) -> Slot {
    let request = Request { key: number, ..Request::new(1, number, tried) };
    let Arrival::Dispatched(slot) = pool.arrive(&request) else { panic!("not dispatched") };
    slot
}

fn picks(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("ten endpoints");
    let tried = Tried::new();
    let balance_factor = BalanceFactor::from_percent(125);
    let bounded = HashSettings { balance_factor };
    let peak = FairSettings { no_rr: false, weight_mode: WeightMode::Peak };
    let all = PolicyKind::all().iter().map(|policy| (policy.to_string(), *policy));
    let more = [
        ("fair weight_mode=peak".to_owned(), PolicyKind::Fair(peak)),
        ("hash balance_factor=125%".to_owned(), PolicyKind::Hash(bounded)),
        ("ring_hash balance_factor=125%".to_owned(), PolicyKind::RingHash(bounded)),
        ("maglev balance_factor=125%".to_owned(), PolicyKind::Maglev(bounded)),
    ];
    for (name, policy) in all.chain(more) {
        let mut number = numbers();
        let pool = pool(policy, |_| 1);
        group.bench_function(format!("{name}, idle"), |bencher| {
            bencher.iter(|| drop(black_box(slot(&pool, &tried, number()))));
        });
    }
    let busy = [
        ("fair", PolicyKind::Fair(FairSettings::default())),
        ("least_conn", PolicyKind::LeastConn),
        ("hash balance_factor=125%", PolicyKind::Hash(bounded)),
        ("ring_hash balance_factor=125%", PolicyKind::RingHash(bounded)),
    ];
    for (name, policy) in busy {
        let mut number = numbers();
        let pool = pool(policy, |_| 1);
        let _busy: Vec<Slot> = (0..ENDPOINTS * 2).map(|_| slot(&pool, &tried, number())).collect();
        group.bench_function(format!("{name}, all busy"), |bencher| {
            bencher.iter(|| drop(black_box(slot(&pool, &tried, number()))));
        });
    }
    let mut number = numbers();
    let uneven = pool(PolicyKind::Hash(HashSettings::default()), |number| number + 1);
    group.bench_function("hash, ten different weights", |bencher| {
        bencher.iter(|| drop(black_box(slot(&uneven, &tried, number()))));
    });
    group.finish();
}

fn keys(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("hash a key");
    for text in ["192.0.2.7", "/shop/item?id=4711&colour=blue&size=42&from=newsletter&session=0815"]
    {
        group.bench_function(format!("{} bytes", text.len()), |bencher| {
            bencher.iter(|| hash_key(black_box(text.as_bytes())));
        });
    }
    group.finish();
}

criterion_group!(policies, picks, keys);
criterion_main!(policies);
