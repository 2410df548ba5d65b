//! What a program gets so that the engine can stop it and say where. The engine looks at the clock at every 10,000th
//! turn of a loop or call, which is far too seldom where each turn compares huge texts or fills the heap; and where it
//! stops a loop that calls nothing, it would name the last place before at which something was called.
//!
//! A tick, `__left-- || (__left = __tick())`, counts down to the next look of the host's `__tick` at clock and heap,
//! which gives how many ticks may go by after it: many while they are quick, none while they take long. One stands
//! - in each loop, and at the beginning of each function that gives more than a constant: a built-in that calls it may
//!   convert what it gives, which takes long where that is a huge BigInt or a text of many digits;
//! - before `...` of what may have many members, and before each element that is given its value by `[a[0], a[1]] = …`;
//! - before `==`, before what compares with a BigInt, and before all names of an object are gone through by `for … in`,
//!   `{ ...o }` or `{ ...rest } = o`, and behind `catch ({ ...rest })`: there it looks each time, `__left = __tick()`;
//! - before each so-manieth expression that makes or compares something: between two looks the heap grows by little.
//!
//! Patterns get a turn that the engine counts where it would look at the clock too seldom (see `pattern`).
//!
//! What `...` goes through item by item passes through `__tick` as well, which slows down what is long. So do the BigInts
//! that `*`, `**`, `<<` and `>>` make: it ends a run that makes one so big that work on it would take long.

#![expect(clippy::wildcard_enum_match_arm, reason = "of the many kinds of nodes only a few matter here")]

use oxc::allocator::{Allocator, ArenaVec, TakeIn};
use oxc::ast::ast::{
    Argument, ArrowFunctionBody, ArrowFunctionExpression, AssignmentExpression, AssignmentOperator, AssignmentTarget,
    AssignmentTargetMaybeDefault, BinaryOperator, BindingPattern, CatchClause, ChainElement, Expression,
    ForInStatement, ForOfStatement, ForStatementLeft, Function, FunctionBody, LogicalOperator, NumberBase,
    ObjectAssignmentTarget, ObjectPattern, ObjectPropertyKind, Program, PropertyKey, RegExpLiteral,
    SimpleAssignmentTarget, SpreadElement, Statement, StaticBlock, SwitchCase, UnaryOperator, UpdateOperator,
    VariableDeclarator,
};
use oxc::ast::builder::AstBuilder;
use oxc::ast_visit::{VisitMut, walk_mut};
use oxc::span::{GetSpan, SPAN, Span};
use oxc::syntax::scope::ScopeFlags;

use super::compile::Names;
use super::pattern;
use super::weights::{NUMBER, ROW, SUM, grows, is_idle, is_name, is_object, is_short, weighs};

/// Puts the ticks in; gives whether there are any.
pub(super) fn mark<'a>(allocator: &'a Allocator, program: &mut Program<'a>, names: &Names) -> bool {
    let [left, tick, big] = [&names.left, &names.tick, &names.big].map(|name| allocator.alloc_str(name));
    let mut marker =
        Marker { ast: AstBuilder::new(allocator), allocator, left, tick, big, ticks: false, made: 0, gathers: false };
    marker.visit_program(program);
    marker.ticks
}

struct Marker<'a> {
    ast: AstBuilder<'a>,
    allocator: &'a Allocator,
    left: &'a str,
    tick: &'a str,
    big: &'a str,
    ticks: bool,
    /// The weight of what is made between the last such tick and here.
    made: u32,
    /// A pattern was met that takes all other properties of an object, `{ a, ...rest }`, for which nothing looks yet.
    gathers: bool,
}

impl<'a> Marker<'a> {
    fn left(&self, place: Span) -> SimpleAssignmentTarget<'a> {
        SimpleAssignmentTarget::new_assignment_target_identifier(place, self.left, &self.ast)
    }

    /// `__left-- || (__left = __tick())`; a run that is stopped by it is told to have been at `place`.
    fn tick(&mut self, place: Span) -> Expression<'a> {
        // The printer leaves a place out that is the same as the last one: another one stands between.
        let other = Span::new(place.end.saturating_sub(1), place.end);
        let spent = self.left(other);
        let spend = Expression::new_update_expression(SPAN, UpdateOperator::Decrement, false, spent, &self.ast);
        let look = self.look(place);
        Expression::new_logical_expression(SPAN, spend, LogicalOperator::Or, look, &self.ast)
    }

    /// `__left = __tick()`: a look whatever is left, before what takes long by itself where its operands are large.
    fn look(&mut self, place: Span) -> Expression<'a> {
        self.ticks = true;
        // An empty span would count as none.
        let place = Span::new(place.start, place.start + 1);
        let callee = Expression::new_identifier(place, self.tick, &self.ast);
        let more = Expression::new_call_expression(place, callee, None, [], false, &self.ast);
        let target = AssignmentTarget::from(self.left(SPAN));
        Expression::new_assignment_expression(SPAN, AssignmentOperator::Assign, target, more, &self.ast)
    }

    fn count(&mut self, it: &mut Expression<'a>) {
        let tick = self.tick(it.span());
        self.behind(tick, it);
    }

    /// What its left side gathers is told apart from what its own parts do.
    fn visit_for(&mut self, left: &mut ForStatementLeft<'a>, right: &mut Expression<'a>, body: &mut Statement<'a>) {
        self.visit_for_statement_left(left);
        let gathers = std::mem::take(&mut self.gathers);
        self.visit_expression(right);
        self.visit_statement(body);
        self.gathers = gathers;
    }

    fn look_before(&mut self, it: &mut Expression<'a>) {
        let look = self.look(it.span());
        self.behind(look, it);
    }

    fn behind(&mut self, first: Expression<'a>, it: &mut Expression<'a>) {
        let operation = it.take_in(&self.allocator);
        *it = Expression::new_sequence_expression(operation.span(), [first, operation], &self.ast);
    }

    /// Puts a tick at the end of a row of expressions, if there is a place for it in this one.
    fn count_row(&mut self, it: &mut Expression<'a>) {
        let place = match it {
            // Not around these: what is called has its object from here, and in `a?.f().x` a missing `a` ends all of it.
            Expression::StaticMemberExpression(it) => Some(&mut it.object).filter(|it| is_name(it)),
            Expression::ComputedMemberExpression(it) => Some(&mut it.object).filter(|it| is_name(it)),
            Expression::CallExpression(it) => it.arguments.first_mut().and_then(Argument::as_expression_mut),
            Expression::ChainExpression(it) => match &mut it.expression {
                ChainElement::CallExpression(it) => it.arguments.first_mut().and_then(Argument::as_expression_mut),
                ChainElement::StaticMemberExpression(it) => Some(&mut it.object).filter(|it| is_name(it)),
                ChainElement::ComputedMemberExpression(it) => Some(&mut it.object).filter(|it| is_name(it)),
                _ => None,
            },
            // These have their names from where they stand.
            Expression::FunctionExpression(_)
            | Expression::ArrowFunctionExpression(_)
            | Expression::ClassExpression(_) => None,
            other => Some(other),
        };
        if let Some(place) = place {
            self.made = 0;
            self.count(place);
        }
    }

    /// `typeof (__big = operation) === "bigint" ? __tick(__big) : __big`
    fn bound(&mut self, it: &mut Expression<'a>) {
        self.pass(it, "bigint", 0);
    }

    /// The same with `"string"` and `__tick(__big, 0, 0, 0)` for what is spread into an object and may be a text: the engine
    /// copies no characters of one.
    fn spell(&mut self, it: &mut Expression<'a>) {
        match it {
            Expression::ParenthesizedExpression(it) => self.spell(&mut it.expression),
            Expression::ConditionalExpression(it) => {
                self.spell(&mut it.consequent);
                self.spell(&mut it.alternate);
            }
            // A text on its left side is an empty one.
            Expression::LogicalExpression(it) if it.operator == LogicalOperator::And => self.spell(&mut it.right),
            other if is_object(other) => {}
            other => self.pass(other, "string", 3),
        }
    }

    /// Has what is of this type pass through the host's function, with so many arguments behind it.
    fn pass(&mut self, it: &mut Expression<'a>, kind: &'a str, zeros: usize) {
        self.ticks = true;
        let operation = it.take_in(&self.allocator);
        let place = operation.span();
        let ast = &self.ast;
        let kept = || Expression::new_identifier(SPAN, self.big, ast);
        let target =
            AssignmentTarget::from(SimpleAssignmentTarget::new_assignment_target_identifier(SPAN, self.big, ast));
        let keep = Expression::new_assignment_expression(SPAN, AssignmentOperator::Assign, target, operation, ast);
        let kind_of = Expression::new_unary_expression(SPAN, UnaryOperator::Typeof, keep, ast);
        let wanted = Expression::new_string_literal(SPAN, kind, None, ast);
        let test = Expression::new_binary_expression(SPAN, kind_of, BinaryOperator::StrictEquality, wanted, ast);
        let callee = Expression::new_identifier(place, self.tick, ast);
        let zero = || Expression::new_numeric_literal(SPAN, 0.0, None, NumberBase::Decimal, ast);
        let mut arguments = ArenaVec::with_capacity_in(zeros + 1, &self.allocator);
        arguments.push(Argument::from(kept()));
        arguments.extend((0..zeros).map(|_| Argument::from(zero())));
        let passed = Expression::new_call_expression(place, callee, None, arguments, false, ast);
        *it = Expression::new_conditional_expression(SPAN, test, passed, kept(), ast);
    }

    /// A tick, or a look where a pattern before it takes all of an object.
    fn tick_statement(&mut self, place: Span, gathers: bool) -> Statement<'a> {
        let tick = if gathers { self.look(place) } else { self.tick(place) };
        Statement::new_expression_statement(SPAN, tick, &self.ast)
    }

    /// `{ tick; body }`
    fn each_turn(&mut self, place: Span, body: &mut Statement<'a>) {
        let gathers = std::mem::take(&mut self.gathers);
        let tick = self.tick_statement(place, gathers);
        if let Statement::BlockStatement(block) = body {
            block.body.insert(0, tick);
            return;
        }
        let mut both = ArenaVec::with_capacity_in(2, &self.allocator);
        both.extend([tick, body.take_in(&self.allocator)]);
        *body = Statement::new_block_statement(SPAN, both, &self.ast);
    }
}

impl<'a> VisitMut<'a> for Marker<'a> {
    fn visit_reg_exp_literal(&mut self, it: &mut RegExpLiteral<'a>) {
        if let Ok(Some(text)) = pattern::stoppable(&it.regex.pattern.text, &it.regex.flags.to_string()) {
            it.regex.pattern.text = self.allocator.alloc_str(&text).into();
        }
    }

    fn visit_expression(&mut self, it: &mut Expression<'a>) {
        let weight = weighs(it);
        let grows = match it {
            Expression::BinaryExpression(it) => grows(it.operator, Some(&it.left), &it.right),
            Expression::AssignmentExpression(it) => {
                it.operator.to_binary_operator().is_some_and(|operator| grows(operator, None, &it.right))
            }
            _ => false,
        };
        walk_mut::walk_expression(self, it);
        self.made += weight;
        if weight >= ROW {
            self.made = 0;
            self.look_before(it);
        } else if self.made >= ROW && weight > 0 {
            self.count_row(it);
        }
        if grows {
            self.bound(it);
        }
    }

    // Not the call around it, for the same reason.
    fn visit_spread_element(&mut self, it: &mut SpreadElement<'a>) {
        walk_mut::walk_spread_element(self, it);
        self.ticks = true;
        let operand = it.argument.take_in(&self.allocator);
        let place = operand.span();
        let callee = Expression::new_identifier(place, self.tick, &self.ast);
        it.argument = Expression::new_call_expression(place, callee, None, [Argument::from(operand)], false, &self.ast);
    }

    fn visit_object_property_kind(&mut self, it: &mut ObjectPropertyKind<'a>) {
        match it {
            ObjectPropertyKind::SpreadProperty(it) => {
                walk_mut::walk_spread_element(self, it);
                self.spell(&mut it.argument);
                self.look_before(&mut it.argument);
            }
            ObjectPropertyKind::ObjectProperty(it) => walk_mut::walk_object_property(self, it),
        }
    }

    // In `[a[0], a[1]] = …` nothing else would tick between two elements of a typed array.
    fn visit_assignment_target_maybe_default(&mut self, it: &mut AssignmentTargetMaybeDefault<'a>) {
        walk_mut::walk_assignment_target_maybe_default(self, it);
        let target = match it {
            AssignmentTargetMaybeDefault::AssignmentTargetWithDefault(it) => match &mut it.binding {
                AssignmentTarget::ComputedMemberExpression(it) => it,
                _ => return,
            },
            AssignmentTargetMaybeDefault::ComputedMemberExpression(it) => it,
            _ => return,
        };
        self.count(&mut target.expression);
    }

    fn visit_switch_case(&mut self, it: &mut SwitchCase<'a>) {
        walk_mut::walk_switch_case(self, it);
        if let Some(test) = it.test.as_mut().filter(|test| !is_short(test)) {
            self.made += SUM;
            if self.made >= ROW {
                self.made = 0;
                self.count(test);
            }
        }
    }

    fn visit_property_key(&mut self, it: &mut PropertyKey<'a>) {
        walk_mut::walk_property_key(self, it);
        let Some(key) = it.as_expression_mut() else { return };
        // These may stand there without brackets, too.
        let plain =
            matches!(key, Expression::StringLiteral(_) | Expression::NumericLiteral(_) | Expression::BigIntLiteral(_));
        if plain || is_short(key) {
            return;
        }
        self.made += NUMBER;
        if self.made >= ROW {
            self.made = 0;
            self.count(key);
        }
    }

    fn visit_function(&mut self, it: &mut Function<'a>, flags: ScopeFlags) {
        let around = std::mem::take(&mut self.gathers);
        walk_mut::walk_function(self, it, flags);
        self.gathers = around;
    }

    fn visit_arrow_function_expression(&mut self, it: &mut ArrowFunctionExpression<'a>) {
        let around = std::mem::take(&mut self.gathers);
        walk_mut::walk_arrow_function_expression(self, it);
        self.gathers = around;
    }

    fn visit_static_block(&mut self, it: &mut StaticBlock<'a>) {
        let around = std::mem::take(&mut self.gathers);
        walk_mut::walk_static_block(self, it);
        self.gathers = around;
    }

    fn visit_function_body(&mut self, it: &mut FunctionBody<'a>) {
        let gathers = std::mem::take(&mut self.gathers);
        let idle = is_idle(it) && !gathers;
        walk_mut::walk_function_body(self, it);
        if !idle {
            let tick = self.tick_statement(it.span, gathers);
            it.statements.insert(0, tick);
        }
    }

    fn visit_arrow_function_body(&mut self, it: &mut ArrowFunctionBody<'a>) {
        let Some(expression) = it.as_expression_mut() else { return walk_mut::walk_arrow_function_body(self, it) };
        let gathers = std::mem::take(&mut self.gathers);
        let idle = is_short(expression);
        self.visit_expression(expression);
        if gathers {
            self.look_before(expression);
        } else if !idle {
            self.count(expression);
        }
    }

    fn visit_catch_clause(&mut self, it: &mut CatchClause<'a>) {
        if let Some(param) = &mut it.param {
            self.visit_catch_parameter(param);
        }
        let gathers = std::mem::take(&mut self.gathers);
        self.visit_block_statement(&mut it.body);
        if gathers {
            let look = self.tick_statement(it.span, true);
            it.body.body.insert(0, look);
        }
    }

    fn visit_object_pattern(&mut self, it: &mut ObjectPattern<'a>) {
        walk_mut::walk_object_pattern(self, it);
        self.gathers |= it.rest.is_some();
    }

    fn visit_object_assignment_target(&mut self, it: &mut ObjectAssignmentTarget<'a>) {
        walk_mut::walk_object_assignment_target(self, it);
        self.gathers |= it.rest.is_some();
    }

    fn visit_assignment_expression(&mut self, it: &mut AssignmentExpression<'a>) {
        let around = std::mem::take(&mut self.gathers);
        self.visit_assignment_target(&mut it.left);
        let gathers = std::mem::replace(&mut self.gathers, around);
        self.visit_expression(&mut it.right);
        if gathers {
            self.look_before(&mut it.right);
        }
    }

    fn visit_variable_declarator(&mut self, it: &mut VariableDeclarator<'a>) {
        self.visit_binding_pattern(&mut it.id);
        // Without a value it is that of a loop.
        let Some(value) = &mut it.init else { return };
        let gathers = std::mem::take(&mut self.gathers);
        self.visit_expression(value);
        // A function or class has its name from an identifier before it.
        if gathers && !matches!(it.id, BindingPattern::BindingIdentifier(_)) {
            self.look_before(value);
        }
    }

    fn visit_for_in_statement(&mut self, it: &mut ForInStatement<'a>) {
        self.visit_for(&mut it.left, &mut it.right, &mut it.body);
    }

    fn visit_for_of_statement(&mut self, it: &mut ForOfStatement<'a>) {
        self.visit_for(&mut it.left, &mut it.right, &mut it.body);
    }

    fn visit_statement(&mut self, it: &mut Statement<'a>) {
        walk_mut::walk_statement(self, it);
        let place = it.span();
        match it {
            Statement::WhileStatement(it) => self.each_turn(place, &mut it.body),
            Statement::DoWhileStatement(it) => self.each_turn(place, &mut it.body),
            Statement::ForStatement(it) => self.each_turn(place, &mut it.body),
            Statement::ForInStatement(it) => {
                self.each_turn(place, &mut it.body);
                // All names are put in order first.
                self.look_before(&mut it.right);
            }
            Statement::ForOfStatement(it) => self.each_turn(place, &mut it.body),
            _ => {}
        }
    }
}
