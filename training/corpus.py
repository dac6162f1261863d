"""The text that the demo's model learns: little stories and talk about them, made by rules and chance.

A story has a hero, a friend, two places and a thing. The sentences come from the lists below; who is where and has what
stays true through a story, so that questions about it have answers.
"""

import dataclasses
import random
from collections.abc import Iterator

END, USER, ASSISTANT = "<|end|>", "<|user|>", "<|assistant|>"

NAMES = {
    "she": ("Mira", "Ada", "Lena", "Tilda", "Rosa", "Nora", "Wren", "Ida", "Olive", "June", "Maya", "Greta"),
    "he": ("Tom", "Oskar", "Felix", "Hugo", "Ben", "Milo", "Jasper", "Anton", "Leo", "Finn", "Pip", "Otto"),
}
HIS = {"she": "her", "he": "his"}
HIM = {"she": "her", "he": "him"}
ANIMALS = (
    "fox", "otter", "heron", "badger", "hare", "mouse", "owl", "crow", "hedgehog", "goat", "cat", "frog", "bear",
    "squirrel", "goose", "mole",
)  # fmt: skip
CHARACTERS = ("small", "brave", "quiet", "clever", "kind", "curious", "patient", "young", "old", "cheerful")
PLACES = (
    "mill", "harbour", "lighthouse", "orchard", "library", "bridge", "station", "market", "forest", "hill", "lake",
    "bakery", "tower", "garden", "river", "village",
)  # fmt: skip
THINGS = (
    "lantern", "map", "key", "bell", "kite", "boat", "letter", "drum", "clock", "basket", "coin", "whistle", "ring",
    "blanket",
)  # fmt: skip
LOOKS = ("red", "blue", "green", "yellow", "silver", "golden", "wooden", "tiny", "heavy", "shiny", "strange", "plain")
SPOTS = ("under a stone", "behind a tree", "in the long grass", "beside the road", "in the mud", "under a bench")
WEATHERS = ("rain", "snow", "wind", "fog", "storm", "dark")
GIFTS = ("a warm scarf", "a jar of honey", "a loaf of bread", "a cup of tea", "an apple pie", "a book of songs")
TIMES = ("morning", "evening", "afternoon", "night")
SEASONS = ("spring", "summer", "autumn", "winter")
PASTIMES = (
    "sang songs",
    "told stories",
    "watched the stars",
    "drank tea",
    "played chess",
    "danced",
    "counted the boats",
)
WORK = ("pick apples", "catch fish", "read books", "mend nets", "sell bread", "water the flowers", "paint the door")


def a(words: str) -> str:
    """Put the indefinite article before words."""
    return f"{'an' if words[0] in 'aeiou' else 'a'} {words}"


@dataclasses.dataclass
class Cast:
    """Who and what a story is about."""

    hero: str
    animal: str
    she: str
    friend: str
    other: str
    home: str
    away: str
    thing: str
    look: str
    spot: str
    weather: str
    gift: str

    def words(self) -> dict[str, str]:
        """Return what stands for the names in braces of a sentence."""
        made = dataclasses.asdict(self)
        made |= {"her": HIS[self.she], "him": HIM[self.she], "She": self.she.capitalize()}
        made |= {"an_animal": a(self.animal), "an_other": a(self.other), "a_thing": a(f"{self.look} {self.thing}")}
        return made


def cast(rng: random.Random, animal: str | None = None, thing: str | None = None) -> Cast:
    """Choose the cast of a story."""
    she = rng.choice(("she", "he"))
    hero = rng.choice(NAMES[she])
    friend = rng.choice([name for name in (*NAMES["she"], *NAMES["he"]) if name != hero])
    animal = animal or rng.choice(ANIMALS)
    other = rng.choice([one for one in ANIMALS if one != animal])
    home, away = rng.sample(PLACES, 2)
    thing, look = thing or rng.choice(THINGS), rng.choice(LOOKS)
    spot, weather, gift = rng.choice(SPOTS), rng.choice(WEATHERS), rng.choice(GIFTS)
    return Cast(hero, animal, she, friend, other, home, away, thing, look, spot, weather, gift)


OPENINGS = (
    "Once upon a time there was {an_animal} called {hero}, who lived near the {home}.",
    "Once upon a time {hero} the {animal} lived near the {home}.",
    "There was once a {character} {animal} called {hero}. {She} lived near the {home}.",
    "{hero} was a {character} {animal}, and {she} lived near the {home}.",
    "Near the {home} lived a {character} {animal} called {hero}.",
)
HABITS = (
    "Every {time} {she} went out to {work}.",
    "In {season} {she} liked to {work}.",
    "{She} was {character} and loved the {season}.",
    "Most of all {she} liked to {work} in the {time}.",
    "",
)
FINDS = (
    "One {time} {she} found {a_thing} {spot}.",
    "One {season} {time} {hero} found {a_thing} {spot}.",
    "Then, one {time}, {hero} found {a_thing} {spot}.",
)
OWNERS = (
    "The {thing} belonged to {friend} the {other}, who lived far away at the {away}.",
    '"This must belong to {friend} the {other}," said {hero}, "who lives at the {away}."',
    "It was the {thing} of {friend} the {other}, who lived at the {away}.",
)
JOURNEYS = (
    "So {hero} took the {thing} and walked to the {away} through the {weather}.",
    "{hero} was afraid of the {weather}, but {she} went to the {away} all the same.",
    "The way to the {away} was long, and there was nothing but {weather} all around {him}.",
    "So {she} put the {thing} in {her} bag and went to the {away}.",
)
MEETINGS = (
    'At the {away} {friend} opened the door. "Is this your {thing}?" asked {hero}. "Yes," said {friend}, "I lost it in '
    'the {weather}!"',
    'There {she} met {friend}. "You have found my {thing}!" said {friend}. "I have looked for it all {season}."',
    '{friend} was very happy. "Thank you, {hero}," said {friend}. "I lost my {thing} in the {weather}."',
)
THANKS = (
    "{friend} gave {hero} {gift}, and they {pastime} until the {time}.",
    "Then {friend} gave {him} {gift}, and the two of them {pastime}.",
    "{hero} got {gift} from {friend}, and they {pastime} all {time}.",
)
LOSSES = (
    "{hero} had {a_thing}, and {she} took it everywhere.",
    "The dearest thing that {hero} had was {a_thing}.",
)
VANISHINGS = (
    "One {time} the {weather} came, and the {thing} was gone.",
    "But one {season} {time} {she} lost the {thing} in the {weather}.",
)
SEARCHES = (
    'Then {she} met {friend} the {other}. "Do not be sad," said {friend}, "we will look for it together."',
    '{hero} asked {friend} the {other} for help. "Let us look at the {away}," said {friend}.',
)
RECOVERIES = (
    "They went to the {away} and looked everywhere. At last {friend} found the {thing} {spot}.",
    "They walked to the {away}, and there, {spot}, lay the {thing}.",
)
ENDINGS = (
    "From that day on {hero} and {friend} were friends.",
    "{hero} and {friend} have been friends ever since.",
    "And {hero} was never alone again.",
    "Then {hero} went home to the {home} and slept well.",
    "That is how {hero} and {friend} became friends.",
)
RETURNED = (OPENINGS, HABITS, FINDS, OWNERS, JOURNEYS, MEETINGS, THANKS, ENDINGS)
LOST = (OPENINGS, HABITS, LOSSES, VANISHINGS, SEARCHES, RECOVERIES, THANKS, ENDINGS)

# Questions of both plots, then those of one.
BOTH = (
    ("Who was {hero}?", "{hero} was {an_animal}."),
    ("Where did {hero} live?", "{hero} lived near the {home}."),
    ("Who was {friend}?", "{friend} was {an_other}."),
    ("What did {friend} give {hero}?", "{friend} gave {hero} {gift}."),
    ("What colour was it?", "It was {look}."),
    ("Where did {hero} go?", "{hero} went to the {away}."),
)
OF_RETURNED = (
    ("What did {hero} find?", "{hero} found {a_thing}."),
    ("Where was the {thing}?", "The {thing} was {spot}."),
    ("Whose {thing} was it?", "It was the {thing} of {friend}."),
)
OF_LOST = (
    ("What did {hero} lose?", "{hero} lost {a_thing}."),
    ("Where was the {thing}?", "The {thing} was {spot}."),
    ("Who helped {hero}?", "{friend} the {other} helped {hero}."),
)
COLOURS = ("red", "blue", "green", "yellow", "silver", "golden")

GREETINGS = (
    ("Hello!", "Hello! Shall I tell you a story?"),
    ("Good morning.", "Good morning! Would you like a story?"),
    ("Hi.", "Hello! Ask me for a story."),
    ("Who are you?", "I am a very small model. I live in refeed and tell little stories."),
    ("What are you?", "I am a very small model. I live in refeed and tell little stories."),
    ("What can you do?", "I can tell little stories, and answer questions about them."),
    ("What is refeed?", "refeed runs models that remember. It keeps their caches from one call to the next."),
    ("What is a cache?", "A cache keeps what the model has read, so that no word is read twice."),
    ("How big are you?", "I am very small. All that I know fits into less than two megabytes."),
    ("How are you?", "I am well, thank you. Shall I tell you a story?"),
)
CLOSINGS = (
    ("Thank you.", "You are welcome."),
    ("Thank you!", "You are welcome!"),
    ("That was nice.", "Thank you. Shall I tell you another story?"),
    ("Goodbye.", "Goodbye!"),
    ("Good night.", "Good night, sleep well!"),
)
REQUESTS = ("Tell me a story about {0}.", "I want a story about {0}.", "Please tell me a story about {0}.")
ANY_REQUESTS = ("Tell me a story.", "Yes, please.", "Tell me another story.", "A story, please.")


def story(rng: random.Random, who: Cast) -> tuple[str, bool]:
    """Tell a story; also say whether the hero returned a thing, rather than lost one."""
    returned = rng.random() < 0.6
    sentences = []
    for choices in RETURNED if returned else LOST:
        chance = {
            "character": rng.choice(CHARACTERS),
            "time": rng.choice(TIMES),
            "season": rng.choice(SEASONS),
            "work": rng.choice(WORK),
            "pastime": rng.choice(PASTIMES),
        }
        sentence = rng.choice(choices).format(**who.words(), **chance)
        sentences.append(sentence.replace("a old ", "an old "))
    return " ".join(filter(None, sentences)), returned


def questions(rng: random.Random, who: Cast, returned: bool, count: int) -> list[tuple[str, str]]:
    """Ask about a story."""
    fitting = [pair for pair in BOTH if who.look in COLOURS or pair[1] != "It was {look}."]
    fitting += OF_RETURNED if returned else OF_LOST
    words = who.words()
    return [(asked.format(**words), told.format(**words)) for asked, told in rng.sample(fitting, count)]


def turns(messages: list[tuple[str, str]]) -> str:
    """Write a talk as the chat template does."""
    return "".join(f"{USER}{asked}{END}{ASSISTANT}{told}{END}" for asked, told in messages)


def talk(rng: random.Random) -> str:
    """Make a talk: perhaps a greeting, a story or two with questions, perhaps a farewell."""
    messages = list(rng.sample(GREETINGS, rng.choice((0, 0, 1, 1, 2))))
    for _ in range(rng.choice((1, 1, 1, 2))):
        kind = rng.random()
        animal = rng.choice(ANIMALS) if kind < 0.7 else None
        thing = rng.choice(THINGS) if kind < 0.15 or 0.7 <= kind < 0.85 else None
        about = " and ".join(a(one) for one in (animal, thing) if one)
        who = cast(rng, animal, thing)
        told, returned = story(rng, who)
        messages.append((rng.choice(REQUESTS).format(about) if about else rng.choice(ANY_REQUESTS), told))
        messages += questions(rng, who, returned, rng.choice((1, 2, 3, 4)))
    messages += rng.sample(CLOSINGS, rng.choice((0, 1)))
    return turns(messages)


def repetition(rng: random.Random) -> str:
    """Make a talk in which words are said again. Nothing teaches faster to look back at what was said."""
    words = (*NAMES["she"], *NAMES["he"], *ANIMALS, *PLACES, *THINGS, *LOOKS)
    messages = []
    for _ in range(rng.choice((1, 2))):
        said = ", ".join(rng.choices(words, k=rng.randint(2, 9)))
        messages.append((f"{rng.choice(('Say', 'Repeat'))}: {said}.", f"{said}."))
    return turns(messages)


def documents(seed: int) -> Iterator[str]:
    """Make documents without end: talks, repetitions, stories alone; every one begins after an end."""
    rng = random.Random(seed)  # noqa: S311
    while True:
        kind = rng.random()
        if kind < 0.4:
            yield repetition(rng)
        elif kind < 0.55:
            yield f"{story(rng, cast(rng))[0]}{END}"
        else:
            yield talk(rng)


if __name__ == "__main__":
    source = documents(0)
    for _ in range(5):
        print(next(source), "\n")
