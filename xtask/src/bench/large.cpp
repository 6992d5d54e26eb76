#include <bits/stdc++.h>
namespace {
struct Word { std::string text; std::vector<int> at; std::variant<int, std::string, double> value; };
struct Shape { virtual ~Shape() = default; virtual double area(double) const = 0; };
template <int N> struct Poly : Shape {
    std::array<double, N> sides{};
    double area(double x) const override {
        double sum = 0;
        for (int i = 0; i < N; i++) sum += std::sqrt(sides[i] + x * i) / (1 + i);
        return sum;
    }
};
template <int... N> std::vector<std::unique_ptr<Shape>> shapes(std::integer_sequence<int, N...>) {
    std::vector<std::unique_ptr<Shape>> all;
    (all.push_back(std::make_unique<Poly<N + 1>>()), ...);
    return all;
}
std::map<std::string, Word> words(unsigned seed) {
    std::mt19937 random(seed);
    std::uniform_int_distribution<int> letter('a', 'z'), len(2, 9);
    std::map<std::string, Word> found;
    for (int i = 0; i < 400; i++) {
        std::string text(len(random), ' ');
        for (char &c : text) c = static_cast<char>(letter(random));
        auto &word = found[text];
        word.text = text;
        word.at.push_back(i);
        if (i % 3 == 0) word.value = text; else if (i % 3 == 1) word.value = i; else word.value = i * 0.5;
    }
    return found;
}
template <class T> double weigh(const T &it) {
    if constexpr (std::is_same_v<T, std::string>) return static_cast<double>(it.size());
    else return static_cast<double>(it);
}
}
extern "C" double entry(unsigned seed) {
    auto found = words(seed);
    std::unordered_map<size_t, std::list<const Word *>> by_len;
    double sum = 0;
    for (const auto &[text, word] : found) {
        by_len[text.size()].push_back(&word);
        sum += std::visit([](const auto &it) { return weigh(it); }, word.value);
    }
    static const std::regex vowels("[aeiou][^aeiou]+|z+");
    for (auto &[len, list] : by_len) {
        list.sort([](auto *a, auto *b) { return a->at < b->at; });
        if (!list.empty() && std::regex_search(list.front()->text, vowels)) sum += 1;
    }
    std::vector<std::pair<double, std::string>> order;
    for (const auto &[text, word] : found) order.emplace_back(std::hash<std::string>{}(text) % 1000, text);
    std::ranges::sort(order, std::greater<>{});
    std::stable_sort(order.begin(), order.end(), [](auto &a, auto &b) { return a.second < b.second; });
    std::ostringstream out;
    for (const auto &it : order | std::views::take(20)) out << it.first << ' ' << it.second << '\n';
    sum += static_cast<double>(out.str().size());
    static const auto all = shapes(std::make_integer_sequence<int, 60>{});
    for (const auto &it : all) sum += it->area(sum);
    std::deque<int> queue(100, 1);
    std::priority_queue<int> heap(queue.begin(), queue.end());
    while (!heap.empty()) { sum += heap.top(); heap.pop(); }
    return sum;
}
