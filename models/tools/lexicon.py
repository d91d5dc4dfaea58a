"""Word lists that the rules look at. Data only; every set is lower case without outer punctuation."""

from __future__ import annotations


def words(text: str) -> frozenset[str]:
    """The words of a text as a set."""
    return frozenset(text.split())


ASSISTANTS = words("assistant computer voxgate jarvis alexa siri google cortana robot gate")

FILLERS = words(
    "um uh er erm hmm hm mm ah oh eh okay ok so well right alright yeah yes yep hey hi hello now and then also "
    "please just "
    "kindly actually listen look great good cool sure fine perfect excellent quick quickly anyway anyways wait first "
    "next "
    "finally again there morning evening like but yo honestly seriously ooh oops sorry ugh man gosh wow hurry fast yup"
)

KIN = words(
    "mum mom mother mommy mummy mama dad father daddy papa sister brother sis bro wife husband son daughter grandma "
    "grandpa "
    "granny grandad grandmother grandfather nana aunt auntie uncle cousin niece nephew partner boyfriend girlfriend "
    "fiance "
    "boss manager landlord landlady roommate flatmate neighbour neighbor friend teacher coach nurse doctor dentist "
    "lawyer "
    "accountant therapist assistant secretary supervisor colleague coworker plumber electrician mechanic vet "
    "babysitter "
    "nanny parents kids neighbours neighbors office school bank pharmacy hospital clinic restaurant reception desk "
    "police airline hotel "
    "tutor "
    "barber hairdresser gym library insurance team family client agent contractor cleaner driver"
)

VOCATIVES = words(
    "mum mom mother mommy mummy mama dad father daddy papa sis bro grandma grandpa granny nana auntie uncle honey "
    "darling "
    "dear sweetie sweetheart babe baby love guys everyone everybody folks dude buddy mate pal sir madam ma'am miss "
    "doctor "
    "waiter officer professor kids boys girls team man lads somebody someone anybody anyone people ladies friend son "
    "boss chief"
)

NAMES = words(
    "ana anna bob jamal sarah tom john mary james robert michael william david richard joseph thomas charles daniel "
    "matthew "
    "anthony mark paul steven andrew kenneth joshua kevin brian george edward ronald timothy jason jeffrey ryan "
    "jacob gary "
    "nicholas eric jonathan stephen larry justin scott brandon benjamin samuel gregory frank alexander raymond "
    "patrick jack "
    "dennis jerry tyler aaron jose adam danny chloe stella hugo omar pavel lorenzo farah beth margaret veronica "
    "andre ray philip joan ted fred walt carla dana erin gabe hank iris jill josh kim lara lily luke marco marta "
    "molly nate nora owen paula penny rob rick rita rosa ross roy ruby sally scott seth simon stan stella tara theo "
    "tess toby vera vince wendy will yara zack zara evan lou hal vic abby dina eli finn gus holly ian jake jan joel "
    "kurt lana lou mara neil otto reggie sid trish ursula wes"
    "  nathan henry douglas peter kyle walter ethan jeremy harold keith christian roger "
    "noah gerald carl terry sean austin arthur lawrence jesse dylan bryan joe jordan billy bruce albert willie "
    "gabriel logan "
    "alan juan wayne roy ralph randy eugene vincent russell elijah louis bobby philip johnny patricia jennifer linda "
    "elizabeth barbara susan jessica karen nancy lisa betty margaret sandra ashley kimberly emily donna michelle carol "
    "amanda dorothy melissa deborah stephanie rebecca sharon laura cynthia kathleen amy angela shirley brenda emma "
    "pamela "
    "nicole helen samantha katherine christine debra rachel carolyn janet catherine maria heather diane ruth julie "
    "olivia "
    "joyce virginia victoria kelly lauren christina joan evelyn judith megan andrea cheryl hannah jacqueline martha "
    "gloria "
    "teresa sara janice marie julia kathryn grace judy theresa madison beverly denise marilyn amber danielle abigail "
    "brittany "
    "diana natalie sophia rose isabella alexis kayla charlotte lucy alice sam ben chris alex max mike dave steve dan "
    "matt "
    "nick tim jim kate katie liz beth sue jen jess becky priya raj ravi amit mei ling wei chen yuki kenji omar ali "
    "fatima "
    "aisha ahmed mohammed hassan leila carlos miguel luis pedro sofia elena ivan olga dmitri pierre marcel claire "
    "ingrid "
    "lars sven nina leo zoe mia ella ava liam oliver lena jonas felix greta tina tony gina ray ron don ken leigh"
)

# Words that cannot be, or be part of, a person's name in a request.
NOT_PERSON = words(
    "i me my we us you your it its this that these those he she they who what when where why how which if whether "
    "because so "
    "and or but not no yes to for from of in on at by with about into over under up down off out as than then there "
    "here now "
    "am is are was were be been being do does did done have has had will would can could should shall may might must "
    "a an the "
    "some any every each all both more most much many few please thanks today tomorrow tonight saying say says said "
    "tell "
    "ask asking telling know back just really very too also only soon later again attention i'm i'll i've i'd we're "
    "we'll we've it's "
    "that's don't "
    "can't won't didn't he's she's they're you're let's what's received money message text call email dollars hello hi "
    "everything something nothing someone somebody anyone anybody everyone everybody nobody location bell doorbell "
    "alarm meeting vote roll shots elevator order shotgun quits dibs"
)

EMPTY_PHRASE = words(
    "a an the my more another one ones same some thing things stuff few of bit lot right event events item items usual"
)

ALSO_NAMES = words("may will art mark grace rose april june august bill")

PRONOUN_PEOPLE = words(
    "him her them someone somebody anyone anybody everyone everybody nobody it that this me myself himself"
)

# Words that a short name of a thing does not hold: past them the text says something else.
NOT_PHRASE = words(
    "i me we us you he she they him them it this that these those who what when where why how if whether because not "
    "no please "
    "thanks am is are was were be been do does did have has had will would can could should shall might must today "
    "tomorrow "
    "tonight now yesterday ago your yours everything all anything or every each i'm i'll i've i'd we're "
    "we'll it's that's "
    "don't can't won't didn't he's she's they're you're let's what's "
    "but so then than saying said says something anything nothing someone later soon myself isn't aren't wasn't "
    "couldn't "
    "wouldn't shouldn't never always except unless until while"
)

FUNCTION_WORDS = words(
    "a an the and or of to for in on at by with from my me i'd i i'll like want would could can you please some have "
    "get give "
    "make order us it that this is be with just let up thanks thank hi hello hey need may we one also add put uh um"
)

# Verbs of one job, so that a tool named by one is found by the others.
VERB_GROUPS: tuple[frozenset[str], ...] = tuple(
    words(group)
    for group in (
        "send text message tell notify inform write dm ping",
        "call ring dial phone telephone",
        "schedule book arrange plan organise organize",
        "cancel delete remove drop scrap",
        "pay transfer wire venmo remit",
        "order buy purchase reorder",
        "unlock open",
        "lock close shut secure",
        "set adjust change put",
        "share show",
        "play start stream",
        "stop pause halt end",
        "turn switch flip",
        "create add make new record note",
        "find search lookup locate",
        "get fetch read check show list",
        "brew make prepare",
    )
)

# "Get it delivered": participles of what is done for somebody, and the verb of the group that asks for it.
PARTICIPLES = {
    "delivered": "order",
    "sent": "send",
    "paid": "pay",
    "bought": "buy",
    "shut": "shut",
    "put": "put",
    "set": "set",
}

# Tools of these jobs are also asked for by wanting: "I'd like a latte", "can I get", "give me".
WANT_JOBS = words("order buy purchase get make brew prepare want request")

# What an assistant is asked that needs no tool of ours.
ASSISTANT_VERBS = words(
    "set play turn remind show find search look read translate convert define open start stop pause skip resume add "
    "create "
    "check navigate calculate explain summarize summarise recommend suggest lock close dim switch mute unmute give "
    "send spell "
    "compare list describe cancel order book call text message unlock share schedule transfer pay help take wake "
    "record save"
)

# Jobs that sound like a tool's and are not: they are answered, unless a tool's own words fit as well.
OTHER_JOBS = (
    "(book|reserve|get|make|find) [me|us] [a|an|the|two|three|some] [{_}] (table|flight|flights|hotel|tickets|ticket|"
    "restaurant|train|holiday|reservation) [{_}]",
    "(set|create|make|start|add) [me] (a|an|my|the|another) [{_}] (timer|alarm|reminder|stopwatch) [{_}]",
    "remind me [{_}]",
    "(set|cancel|stop|delete) [my|the|all] [{_}] (timer|timers|alarm|alarms|reminder|reminders|subscription|order|"
    "membership|uber|taxi|ride|cab|lyft|delivery|flight|payment|transfer) [{_}]",
    "(add|put) {_} (to|on) (my|the) [{_}] list [{_}]",
    "(unlock|open) [up] [my|the] (phone|laptop|computer|tablet|car|screen|safe|app|window|windows|email|browser|"
    "curtains|blinds|fridge|tv) [{_}]",
    "(call|text|message|email) (him|her|them) [back] [{_}]",
    "order me (to|around) [{_}]",
    "cancel (everything|all) [{_}]",
    "(clear|reschedule|move) (my|the) {_}",
    "(email|forward) {_}",
    "send {_} (the|this|that|my) {_}",
    "send (my|this|that|these) {_} to {_}",
    "(add|put) {_} (to|in|on) my {_}",
    "stop sharing {_}",
    "send (an|the|that|this|my) (email|file|report|photo|document|picture|link|letter|invoice) [{_}]",
    "(set|turn|put) [up|down] the (volume|lights|light|tv|radio|oven|fan|music|brightness) [{_}]",
    "(open|close|launch) (spotify|netflix|youtube|instagram|whatsapp|maps) [{_}]",
)
